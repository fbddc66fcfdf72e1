"""The producers of a log and their transactions.

append                  the batches of one producer in one append
entry                   the state of one producer, and of one transaction
hanging_transactions    open transactions that their coordinator does not know
map_order               the iteration order of a Java HashMap
producer_state          all producers of a log (ProducerStateManager)
replay                  replay producers over columns of batch headers
snapshots               the `.snapshot` files of a partition
transaction_history     every transaction of a directory, with records and bytes
transactional_ids       the ids of a coordinator: what `__transaction_state` says
transactions            the transactions of a directory; last stable offset
validation              check what an append would do to the producers
"""
