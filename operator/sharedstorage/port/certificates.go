package port

import "github.com/pawl-dev/pawl/fault"

// CertificateInvalid is the fault of a certificate that cannot be had or used. It stops nothing of a cluster.
var CertificateInvalid = fault.Declare(fault.Kind{
	Code: "CERTIFICATE_INVALID", Class: fault.Blocked, Title: "the certificate of the instances cannot be used",
	Remedy: "Make the Secret (or the folder) that spec.tls names, with tls.crt, tls.key and ca.crt that fit together and are valid now, or take spec.tls away. Until then the instances serve with the certificate they have; the new one is taken within a minute.",
	Guide:  "day-two.md#tls",
})
