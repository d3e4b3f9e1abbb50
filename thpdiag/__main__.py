"""`python -m thpdiag`."""

from thpdiag.cli import program

if __name__ == "__main__":
    program()
