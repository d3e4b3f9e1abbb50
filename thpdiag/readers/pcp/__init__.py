"""Performance Co-Pilot: archives, and the rows of pmrep and pcp2json."""
