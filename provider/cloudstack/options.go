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
	Installation string // value of cluster.TagInstallation

	Zones           []string // allowed zone ids; empty: all that the key sees
	NetworkOffering string   // id or name, for the networks that Pawl creates
	DefaultTemplate string   // id or name

	// Account maps an owner to an account and its domain id. nil: everything belongs to the
	// account of the key.
	Account func(cluster.Owner) (account, domainID string)

	Parallel int           // maximum concurrent calls per zone; 0: 10
	Rate     int           // maximum calls per second per zone, spread evenly; 0: 20
	PageSize int           // page size; 0: 500, which is also the maximum. It shrinks if the server allows less
	Timeout  time.Duration // of one call; 0: 60 s. Its effect is unknown then
	Poll     time.Duration // first poll interval of a job, and its increment; 0: 1 s
	PollMax  time.Duration // longest poll interval; 0: 15 s
	Refresh  time.Duration // time until listApis is read again; 0: 1 h

	Client *http.Client     // nil: a default client. Redirects are never followed
	Now    func() time.Time // for signatures; nil: time.Now
	// OnCall is called after each API call. outcome is "ok" or an error code in lower case.
	// nil: nothing.
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

// New returns a provider without calling the API. CLUSTER_INVALID if an option is missing.
func New(o Options) (*Provider, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil, base.Scheme != "https" && base.Scheme != "http", base.Host == "", base.User != nil, base.RawQuery != "", base.Fragment != "":
		return nil, cluster.ClusterInvalid.Errorf("the URL of the CloudStack API is invalid: a valid one looks like https://cloud.example.org/client/api")
	case o.APIKey == "" || o.Secret == "" || o.Installation == "":
		return nil, cluster.ClusterInvalid.Errorf("a CloudStack provider needs an API key, its secret and the id of this installation")
	case strings.Contains(o.APIKey+o.Installation, "~"):
		return nil, cluster.ClusterInvalid.Errorf("the API key and the installation id must not contain ~: servers sign it in two ways")
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
	// A redirect would turn a POST into a GET and send the signature to another host.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := &Provider{o: o, base: base, http: &client, gates: gates{parallel: o.Parallel, rate: o.Rate}, pace: pollPacer{step: o.Poll, max: o.PollMax}}
	p.pages.limit.Store(int64(o.PageSize))
	return p, nil
}

// Capabilities returns the capabilities known so far: call ids and disk sizes only after
// listApis has been read.
func (p *Provider) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{
		Kinds:   []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer},
		CallIDs: p.apis.accepts("deployVirtualMachine", customJobID),
		Tags:    true, UserData: maxUserData, SendsHeartbeats: true, DiskSize: p.apis.accepts("deployVirtualMachine", rootDiskSize),
	}
}

// zoneAllowed reports whether the options allow a zone.
func (p *Provider) zoneAllowed(zone string) bool {
	return len(p.o.Zones) == 0 || slices.Contains(p.o.Zones, zone)
}
