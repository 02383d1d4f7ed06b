package cluster

// CreateFacts are what a create request asks for, and what is known about it.
// A nil entry is one that the provider does not show to the owner; where
// nothing was asked for, it is the default, nil if there is none.
type CreateFacts struct {
	Name, Description  string
	Size, ControlNodes int
	MaxWorkers         int // 0: MaxWorkers

	Access      error // of the owner asked for: ACCESS_REFUSED, or nil
	Enabled     bool  // the owner's account may work
	MostWorkers int   // most workers the account may have in one cluster; 0: no limit

	ZoneAsked     string
	Zone          *Entry
	OfferingAsked string
	Offering      *Entry
	MinCores      int // of the version; 0: 1
	MinMemoryMB   int // of the version; 0: 512
	KeyPairAsked  string
	KeyPair       *Entry
	Registry      RegistryFacts

	TemplateAsked   string
	Template        *Entry
	NeedsNetwork    bool   // the provider makes networks
	NetworkOffering *Entry // for a network of our own
	NetworkAsked    string
	Network         *Entry
	CIDRs           []string
}

// RegistryFacts are the credentials of an image registry.
type RegistryFacts struct{ Username, Password, URL, Email string }

// Check is a named check of a request.
type Check struct {
	Name string
	Run  func(*CreateFacts) error
}

// CreateChecks are the checks of a create request, in the order of the specification.
var CreateChecks = []Check{}

// ValidateCreate runs the checks and gives the first fault: CLUSTER_INVALID,
// ENTITY_REFUSED or ACCESS_REFUSED.
func ValidateCreate(f *CreateFacts) error {
	for _, c := range CreateChecks {
		if err := c.Run(f); err != nil {
			return err
		}
	}
	return nil
}

// ScaleFacts are what a scale request asks for.
type ScaleFacts struct {
	Size       int // 0: not given
	NodeIDs    []string
	Autoscale  *Autoscale
	Nodes      []Node // of the cluster
	MaxWorkers int    // 0: MaxWorkers
}

// ValidateScale checks a scale request: exactly one of size, node ids and
// autoscaling. CLUSTER_INVALID.
func ValidateScale(f ScaleFacts) error { return nil }

// ValidateUpgrade checks a change of versions (x.y.z): no downgrade, one minor
// at a time. CLUSTER_INVALID.
func ValidateUpgrade(from, to string) error { return nil }

// ValidateCIDRs checks a list of networks. CLUSTER_INVALID names the bad one.
func ValidateCIDRs(cidrs []string) error { return nil }
