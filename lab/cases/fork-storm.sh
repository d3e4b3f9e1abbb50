# Short processes by the hundred.
kind=look-alike mechanism=fork-teardown-churn
setup() { thp enabled always; }
load() { start forks; start forks; }
