package cloudstack_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/settings"
)

// replay sends the parameters of a signed request in another form.
func (o *fixture) replay(pairs ...string) reply {
	o.t.Helper()
	return o.send(httptest.NewRequestWithContext(o.t.Context(), http.MethodGet, "/client/api?"+strings.Join(pairs, "&"), nil))
}

// desiredSize returns the desired workers of a cluster and its request.
func (o *fixture) desiredSize(id string) (int, *cluster.Request) {
	o.t.Helper()
	b, err := o.fake.Records.Record(o.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	return b.Cluster.NodeCount, b.Cluster.Request
}

// A request with an expired signature is refused, in whatever form its parameters are sent.
func TestFinding7ExpiryIsNotFoldedIntoAName(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	expired := o.sign("uma", params("command", "scaleContainerCluster", "id", id, "size", "5", "expires", "2029-12-31T23:59:59Z", "signatureversion", "3"))
	o.get(expired).fails("as it was signed", 401)
	without := func(names ...string) string {
		v := url.Values{}
		for name := range expired {
			v[name] = expired[name]
		}
		for _, name := range names {
			v.Del(name)
		}
		return v.Encode()
	}
	for what, c := range map[string]struct {
		query string
		code  int
	}{
		"folded into a name":              {without("response", "signatureversion") + "&response%3Djson%26signatureversion=3", 400},
		"folded into a name and a value":  {without("response", "signatureversion") + "&response%3Djson%26signatureversion%3D3", 400},
		"with a letter that lower-cases":  {without("signatureversion", "size") + "&size=5&s%C4%B0gnatureversion=3", 401},
		"with a control in the name":      {without("signatureversion") + "&signatureversion%00=3", 400},
		"with a delete in the name":       {without("signatureversion") + "&signatureversion%7F=3", 400},
		"with a C1 control in the name":   {without("signatureversion") + "&signatureversion%C2%85=3", 400},
		"with another version beside it":  {without() + "&SignatureVersion=2", 400},
		"with the expiry under two names": {without() + "&EXPIRES=2031-01-01T00:00:00Z", 400},
	} {
		o.replay(c.query).fails(what, c.code)
	}
	// The letter İ, whose lower case is i, sorts after all ASCII letters: if no name lies between, the signed text is the same.
	stop := o.sign("uma", params("command", "stopContainerCluster", "id", id, "expires", "2029-12-31T23:59:59Z", "signatureversion", "3"))
	stop.Del("signatureversion")
	o.replay(stop.Encode(), "s%C4%B0gnatureversion=3").fails("with a letter that lower-cases, at the end", 401)
	if workers, request := o.desiredSize(id); workers != 2 || request != nil {
		t.Errorf("%d workers, %+v", workers, request)
	}
}

// The signature does not cover the order of parameters, so the order has no effect.
func TestFinding7OrderMeansNothing(t *testing.T) {
	o := newFixture(t, nil)
	o.create("uma", "blue")
	v := o.sign("uma", params("command", "listContainerCluster", "NAME", "nothing", "name", "blue"))
	first, last := "NAME="+v.Get("NAME"), "name="+v.Get("name")
	v.Del("NAME")
	v.Del("name")
	o.replay(v.Encode(), first, last).fails("one order", 400)
	o.replay(v.Encode(), last, first).fails("the other order", 400)
}

// Commands read parameters by their names in the signed text.
func TestFinding7NamesAreInLowerCase(t *testing.T) {
	o := newFixture(t, nil)
	for _, api := range o.must("op", "listApis").items("api") {
		for _, p := range api["params"].([]any) {
			if name := p.(map[string]any)["name"].(string); name != strings.ToLower(name) {
				t.Errorf("%s reads %s", api["name"], name)
			}
		}
	}
}

// A release candidate is older than its release: minimumsemanticversion excludes it.
func TestCandidatesAreBelowTheirRelease(t *testing.T) {
	o := newFixture(t, nil)
	o.fake.Known = append(o.fake.Known, settings.Version{ID: "rc", Name: "candidate", Semantic: "1.40.0-rc.2"})
	for least, want := range map[string]int{"1.40.0": 0, "1.40.0-rc.3": 0, "1.40.0-rc.2": 1, "1.40.0-rc.1": 1, "1.39.9": 1, "1.40": 0, "v1.39": 1, "1": 3} {
		if got := o.must("uma", "listKubernetesSupportedVersions", "minimumsemanticversion", least).items("kubernetessupportedversion"); len(got) != want {
			t.Errorf("from %s on: %v", least, got)
		}
	}
	o.call("uma", "listKubernetesSupportedVersions", "minimumsemanticversion", "1.x").fails("no x.y.z", 431)
}
