"""What a client knows of the cluster: immutable snapshots, and when to ask for a newer one.

No socket and no thread here; `kprod.network` carries the questions and answers.
"""
