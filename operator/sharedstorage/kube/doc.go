// Package kube is the shared-storage operator on Kubernetes.
//
//	Home         SharedStorageCluster objects; status by compare-and-set, finalizer, annotations, classes
//	Site         the ports: claims, pods, a Lease that says who may write, Deployments of cluster managers
//	Instance     what `pawl instance --kubernetes` runs in the pod of an instance
//	Manager      what `pawl cluster-manager --kubernetes` runs
//	Setup        the controllers
//
// Of a cluster c there are
//
//	Lease c-grant                who may write, under which epoch and until when; the size of the volume
//	Secret c-auth                token of the agents, password of the engines
//	claim and pod per instance   the claim is the record: it says what the instance is to be, and survives its pod
//	Deployment c-manager         the cluster manager, and a ConfigMap of this name with what it must not forget
//	Service c-rw, c-ro           the writer and the readers that clients are sent to
//	PodDisruptionBudget c
//	c-instance, c-manager        ServiceAccount, Role and RoleBinding of the two kinds of pods
//
// All are watched, and put back when somebody deletes or changes them (Restore).
// All belong to the cluster object, but for the claims: data go by the flow that
// deletes a cluster only, so that no way of deleting the object takes what is to stay.
package kube
