"""The workers of the upload page: what waits in the queue is analysed, each bundle in a guarded child of its own.

workers.py    threads of the server: claim a job, watch its process, store what came of it
process.py    the process of one job, which comes from a fork server that has the engine loaded
analysis.py   what that process does: it forks the guarded child and packs its answer
stages.py     what is being done, in words, from the child to the page

server        threads only, none of pandas
  fork server            one; ends with the server, however that does
    process of a job     ends with the fork server, and ends its child and what that has started
      guarded child      reads the customer's bytes
"""
