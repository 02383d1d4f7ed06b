package cloudstack

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Options of a provider. URL, APIKey, Secret and Installation are required.
type Options struct {
	URL          string // of the API, such as https://cloud.example.org/client/api
	APIKey       string
	Secret       cluster.Secret
	Installation string // the value of cluster.TagInstallation

	Zones           []string // ids that may be used; empty: all that the key sees
	NetworkOffering string   // id or name, for networks of our own
	DefaultTemplate string   // id or name

	// Account maps an owner to an account and the id of its domain there. nil:
	// everything belongs to the account of the key.
	Account func(cluster.Owner) (account, domainID string)

	Parallel int           // most calls at a time in each zone; 0: 10
	Rate     int           // most calls a second in each zone, spread evenly; 0: 20
	PageSize int           // most things of a page; 0: 500, which is also the most. A server that allows fewer is asked for fewer
	Timeout  time.Duration // of one call; 0: 60 s. Its answer is unknown then
	Poll     time.Duration // first pause between two looks at a job, and what is added to each; 0: 1 s
	PollMax  time.Duration // longest pause; 0: 15 s
	Refresh  time.Duration // until listApis is read again; 0: 1 h

	Client *http.Client     // nil: one without redirects. Redirects are never followed
	Now    func() time.Time // for signatures; nil: time.Now
	// Called hears of each call to the API: the outcome is "ok" or an error code in
	// lower case. nil: nobody does.
	OnCall func(command, outcome string, took time.Duration)
}

// maxUserData is 32 KiB of base64, before the encoding.
const maxUserData = 32 << 10 / 4 * 3

// Provider is a cluster.Provider. It starts no goroutine and needs no Close.
type Provider struct {
	o      Options
	base   *url.URL
	http   *http.Client
	gates  gates
	apis   apis
	pages  pages
	keys   locks
	pace   pollPacer
	recent recent
}

var _ cluster.Provider = (*Provider)(nil)

// New makes a provider; it makes no call. CLUSTER_INVALID if an option is missing.
func New(o Options) (*Provider, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil, base.Scheme != "https" && base.Scheme != "http", base.Host == "", base.User != nil, base.RawQuery != "", base.Fragment != "":
		return nil, cluster.ClusterInvalid.Errorf("the URL of the CloudStack API is none: it looks like https://cloud.example.org/client/api")
	case o.APIKey == "" || o.Secret == "" || o.Installation == "":
		return nil, cluster.ClusterInvalid.Errorf("a CloudStack provider needs an API key, its secret and the id of this installation")
	case strings.Contains(o.APIKey+o.Installation, "~"):
		return nil, cluster.ClusterInvalid.Errorf("the API key and the installation id must not contain ~: servers disagree how to sign it")
	}
	o.Parallel, o.Rate = cmp.Or(max(o.Parallel, 0), 10), cmp.Or(max(o.Rate, 0), 20)
	if o.PageSize <= 1 || o.PageSize > MaxPageSize {
		o.PageSize = MaxPageSize
	}
	o.Timeout = cmp.Or(max(o.Timeout, 0), time.Minute)
	o.Poll, o.PollMax = cmp.Or(max(o.Poll, 0), time.Second), cmp.Or(max(o.PollMax, 0), 15*time.Second)
	o.Refresh = cmp.Or(max(o.Refresh, 0), time.Hour)
	o.Zones = slices.Clone(o.Zones)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnCall == nil {
		o.OnCall = func(string, string, time.Duration) {}
	}
	client := http.Client{}
	if o.Client != nil {
		client = *o.Client
	}
	// A redirected POST would become a GET, and a signature would go elsewhere.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := &Provider{o: o, base: base, http: &client, gates: gates{parallel: o.Parallel, rate: o.Rate}, pace: pollPacer{step: o.Poll, max: o.PollMax}}
	p.pages.limit.Store(int64(o.PageSize))
	return p, nil
}

// Capabilities are those known so far: call ids and sizes of disks count once
// listApis was read.
func (p *Provider) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{
		Kinds:   []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer},
		CallIDs: p.apis.accepts("deployVirtualMachine", customJobID),
		Tags:    true, UserData: maxUserData, CallsHome: true, DiskSize: p.apis.accepts("deployVirtualMachine", rootDiskSize),
	}
}

// serves reports a zone that may be used.
func (p *Provider) zoneAllowed(zone string) bool {
	return len(p.o.Zones) == 0 || slices.Contains(p.o.Zones, zone)
}
