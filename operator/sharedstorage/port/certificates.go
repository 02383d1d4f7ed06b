package port

import "github.com/pawl-dev/pawl/fault"

// CertificateInvalid is the fault of a certificate that cannot be had or used. It stops nothing of a cluster.
var CertificateInvalid = fault.Declare(fault.Kind{
	Code: "CERTIFICATE_INVALID", Class: fault.Blocked, Title: "the certificate of the instances cannot be used",
	Remedy: "Make the Secret (or the folder) that spec.tls names, with tls.crt, tls.key and ca.crt that fit together and are valid now, or take spec.tls away. Until then the instances serve with the certificate they have; the new one is taken within a minute.",
	Guide:  "day-two.md#tls",
})

// CertificateNameMissing is the fault of a certificate of the spec that clients cannot verify by the names at which they
// find the cluster. It is used nevertheless.
var CertificateNameMissing = fault.Declare(fault.Kind{
	Code: "CERTIFICATE_NAME_MISSING", Class: fault.Blocked, Title: "the certificate of the spec lacks a name of the cluster",
	Remedy: "Issue the certificate that spec.tls names with the names in the message (cert-manager: spec.dnsNames), or take spec.tls away. Until then clients connect by sslmode=verify-ca there, and verify-full fails.",
	Guide:  "day-two.md#tls",
})

// The files with which agents, cluster managers and poolers call each other, beside the certificates of engines and
// poolers for clients, and those of Identity.Files.
const (
	AgentCertificateFile = "agent.crt" // of all, without a name: until the processes of earlier versions have ended
	AgentKeyFile         = "agent.key"
	AgentTrustFile       = "agent-trust.crt" // authorities, former ones among them while they change
	RequiredFromFile     = "required-from"   // since when they accept no call without TLS, and readers verify the writer; RFC 3339
	NamedFromFile        = "named-from"      // since when callers verify the identity of whom they call; RFC 3339
	ClientsFile          = "clients"         // ClientsRequire: engines and poolers refuse clients without TLS

	PoolerCertificateFile = "pooler.crt" // of poolers, for clients
	PoolerKeyFile         = "pooler.key"

	IdentityPrefix = "identity." // of the names of the files of Identity.Files
)

// ClientsRequire is the content of ClientsFile.
const ClientsRequire = "require"

// PlainAllowed is the content of RequiredFromFile that takes back what was required.
const PlainAllowed = "never"
