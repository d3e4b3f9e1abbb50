"""`python -m thpdiag`."""

from thpdiag.cli import main

if __name__ == "__main__":
    main()
