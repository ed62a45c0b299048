// Package script is the language in which the rules of all planners are tested: commands that build a
// cluster, the verb of a planner, and the output that it must give.
//
// A file heads the section of docs/reference that it checks, may begin with commands that every case of it
// shares, and then holds cases. Each starts in a cluster of its own with a line that says its rule in a
// sentence:
//
//	# The rules of scheduling §7.4: nodes that are there.
//	types
//	  a.small 2 4 zone-a/on-demand/0.1
//
//	== A pod goes to a node that has room before one is bought.
//	pool default
//	node n1 pool=default type=a.small zone=zone-a
//	pod p cpu=1
//	plan
//	----
//	node n1: p
//
// A line "----" prints what the commands since the last one wrote; its output ends at the next empty line.
// Lines that begin with # say why. Indented lines below a command belong to it: below one that names an
// object they are YAML laid over that object (null takes a field away), so that whatever has no word of its
// own can still be said.
//
// The commands that every planner shares:
//
//	types                          a catalogue of c5, m5 and r5 in four sizes, three zones, on demand and spot; or, as a block, lines
//	                               of TYPE CPU GIB, then offerings ZONE/CAPACITYTYPE/PRICE[/RESERVATION[/FREE]][/gone][@GROUP[/PARTITION]], RESOURCE:AMOUNT
//	                               and LABEL=VALUE
//	reserve TYPE ZONE ID [N]       adds a reservation of N free instances; without N of any number
//	pool NAME [OPTION…]            weight, replicas, after (consolidateAfter), policy (consolidationPolicy), expire; taint and
//	                               startup-taint=K=V:Effect, label=K=V, annotation=K=V, require=KEY OPERATOR [V,V] [min=N],
//	                               budget=N[,reason…][,DURATION@CRON]; anything else is a limit: cpu=10
//	pod NAME [xN] [OPTION…]        waits for a node, unless on=NODE: then it runs there. ns, label, annotation, owner=KIND/NAME,
//	                               select=K=V, tolerate=K[=V][:Effect] or tolerate=*, hostPort=N[/PROTOCOL][@IP], volume=CLAIM,
//	                               require=KEY OPERATOR [V,V] (or begins the next term), prefer=WEIGHT:KEY OPERATOR [V,V],
//	                               spread=K=V@DOMAIN[,FIELD=VALUE…], near, apart, prefer-near and prefer-apart=K=V@DOMAIN;
//	                               anything else is a request: cpu=1. A DOMAIN is zone, host or a label
//	node NAME [OPTION…]            taint, label, annotation; pool: registered and initialized in it; type: amounts of the catalogue;
//	                               zone, capacity (type), claim=NAME: its NodeClaim, which the log has adopted; anything else is an
//	                               amount: cpu=4
//	claim NAME [OPTION…]           a NodeClaim that the log does not know: pool, node, taint, startup-taint, label, require
//	daemonset NAME [OPTION…]       with the options of a pod
//	overlay NAME [OPTION…]         weight, price, adjust (priceAdjustment), require; anything else is capacity
//	pvc NAME [class=C] [bound=PV]  a PersistentVolumeClaim
//	pv NAME [OPTION…]              a PersistentVolume of driver (EBS if none is named), require=KEY OPERATOR [V,V] of its node
//	class, pdb, storageclass, csinode, attachment, namespace, priority, policy, buffer (CapacityBuffer), podtemplate, deployment,
//	statefulset, replicaset NAME
//	                               an object that its block describes
//	change KIND NAME               lays the block over an object
//	copies POD xN                  N−1 more pods like POD: POD-01 …
//	bind POD NODE                  | delete KIND NAME | unreadable KIND NAME | forward DURATION | option NAME VALUE
//	forget                         all observations are lost, and a new stream begins with what there is now
//	clock DURATION                 moves the clock alone; forward brings a heartbeat too
//	fail TYPE ZONE CAPACITYTYPE [GROUP[/PARTITION]]  the launch of such an offering failed
//	full GROUP ZONE                the placement group takes no more instances in the zone
//	price TYPE ZONE CAPACITYTYPE USD
//	                               what such an offering costs from now on
//	drift CLAIM REASON HH:MM       the claim has drifted since that time of the day
//	create                         the NodeClaims of all planned claims are made
//
// Package script is for tests only; they pass the verbs that they add to Run. With the flag -rewrite the
// output goes into the files, and the diff is to be reviewed as code.
package script
