// Package transport carries the calls of agents, cluster managers and poolers over TLS.
//
// A server has one port. The first byte of a connection says whether it begins with a TLS handshake;
// everything else is plain HTTP, which probes and Prometheus use. The certificate is read from a Folder,
// again whenever it changes, so that a new one needs no restart.
//
// A client speaks TLS to a server as soon as it knows the authorities of the cluster. It verifies that one of
// them has signed the certificate, and not the name: the address of a pod is not known when the
// certificate is made, and the authority signs for one cluster only. Until Trust.Required it still
// talks plain to a server that has no certificate yet; from then on a token is sent over TLS only.
package transport
