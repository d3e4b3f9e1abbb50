# A store that forks to save: writes meanwhile copy or split huge pages.
kind=pathology mechanism=fork-cow
setup() { thp enabled always; thp defrag madvise; }
load() { start saver 400 1500; }
cure() { thp enabled never; }
