# Nothing runs.
kind=look-alike mechanism=none
setup() { :; }
load() { :; }
