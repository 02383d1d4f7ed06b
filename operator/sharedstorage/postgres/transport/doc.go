// Package transport carries the calls of agents, cluster managers and poolers over TLS.
//
// A server has one port. The first byte of a connection says whether it begins with a TLS handshake;
// everything else is plain HTTP, which probes and Prometheus use. The certificate is read from a Folder,
// again whenever it changes, so that a new one needs no restart.
//
// A client speaks TLS to a server as soon as it knows the authorities of the cluster. It verifies that one of
// them has signed the certificate for a server, and that the certificate has the port.Identity of the one it calls: not
// an address, because that of a pod is not known when the certificate is made. Until Trust.Required it still
// talks plain to a server that has no certificate yet, and until Trust.Named it talks to one that has no identity there;
// from then on a token is sent to the verified server only, and on no connection from before.
package transport
