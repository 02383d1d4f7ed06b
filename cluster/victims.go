package cluster

// Victims chooses the workers to remove. With ids (names or provider ids) they
// are exactly those; CLUSTER_INVALID if one is no living worker of the nodes,
// or if they are all workers. Without, so many go that keep stay: those not
// ready first, then the newest. Control nodes are never victims.
func Victims(nodes []Node, ids []string, keep int) ([]Node, error) { return nil, nil }
