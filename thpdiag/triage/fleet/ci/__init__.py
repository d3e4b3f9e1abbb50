"""The fleet for programs of CI: JUnit, SARIF, GitLab, GitHub."""
