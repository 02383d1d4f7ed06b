// Package kube is the shared-storage operator on Kubernetes.
//
//	ClusterStore  SharedStorageCluster objects; status by compare-and-set, finalizer, annotations, classes
//	Placement     the ports: claims, pods, a Lease that says who may write, Deployments of cluster managers
//	Instance      what `pawl instance --kubernetes` runs in the pod of an instance
//	Manager       what `pawl cluster-manager --kubernetes` runs
//	Setup         the controllers
//
// A cluster c has these objects:
//
//	Lease c-grant                who may write, under which epoch and until when; the size of the volume
//	Secret c-auth                token of the agents, password of the engines
//	claim and pod per instance   the claim is the record: it says what the instance should be, and survives its pod
//	Deployment c-manager         the cluster manager, and a ConfigMap of this name with its state
//	Service c-rw, c-ro           the writer and the readers that clients are sent to
//	PodDisruptionBudget c
//	c-instance                   ServiceAccount, Role and RoleBinding of the pods of instances
//	c.manager.pawl.dev           the same of the cluster manager
//
// The operator watches all of them, and restores them when somebody deletes or changes them
// (Restore). The cluster object owns all of them except the claims. Only the flow that deletes a
// cluster deletes data, so that no way of deleting the object removes data that shall stay.
package kube
