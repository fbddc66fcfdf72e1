"""Producers of a log and their transactions.

append                  the batches of one producer in one append
entry                   what a log remembers of one producer
hanging_transactions    open transactions whose coordinator does not know them
map_order               the order of a Java HashMap
producer_state          all producers of a log (ProducerStateManager)
replay                  replay producers over columns of batch headers
snapshots               the `.snapshot` files of a partition
transactions            the transactions of a directory; last stable offset
validation              what an append would do to producers, checked first
"""
