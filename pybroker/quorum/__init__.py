"""The controllers of a cluster that is configured as Kafka's is, by `controller.quorum.voters`: members of etcd, one beside each.

members         which nodes are controllers, and whether this process is one, from the settings
etcd_command    the command line of a member
standing        how far each member is, and which one leads
replacement     whether a controller that has lost its data joins the others again
member          runs the member as a child of this process: started first, restarted, and stopped last

Files for three nodes of Kafka run unchanged: the listener of a controller becomes the address at which the members of etcd speak
to each other, and the brokers keep the cluster's metadata in it. kubeadm and k3s run etcd beside their servers in the same way.
A broker without such settings, and one with `metadata.store`, imports nothing of this.
"""
