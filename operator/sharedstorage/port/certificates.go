package port

import "github.com/pawl-dev/pawl/fault"

// CertificateInvalid is the fault of a certificate that cannot be had or used. It stops nothing of a cluster.
var CertificateInvalid = fault.Declare(fault.Kind{
	Code: "CERTIFICATE_INVALID", Class: fault.Blocked, Title: "the certificate of the instances cannot be used",
	Remedy: "Make the Secret (or the folder) that spec.tls names, with tls.crt, tls.key and ca.crt that fit together and are valid now, or take spec.tls away. Until then the instances serve with the certificate they have; the new one is taken within a minute.",
	Guide:  "day-two.md#tls",
})

// The files with which agents, cluster managers and poolers call each other, beside the certificate of the
// engines.
const (
	AgentCertificateFile = "agent.crt"
	AgentKeyFile         = "agent.key"
	AgentTrustFile       = "agent-trust.crt" // authorities, former ones among them while they change
	RequiredFromFile     = "required-from"   // since when they accept no call without TLS, and readers verify the writer; RFC 3339
	ClientsFile          = "clients"         // ClientsRequire: engines and poolers refuse clients without TLS
)

// ClientsRequire is the content of ClientsFile.
const ClientsRequire = "require"
