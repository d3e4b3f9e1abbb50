"""The page where a team uploads bundles: access/ says who may do what, uploads/ takes bytes, storage/ keeps them."""
