package cloudstack_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// The password is in the result of the owner's create job, and in no list.
func TestListsOfJobsHoldNoPassword(t *testing.T) {
	o := newFixture(t, nil)
	created := o.must("uma", "createContainerCluster", "name", "blue", "zoneid", "z1", "serviceofferingid", "o1", "size", "2")
	if err := o.fake.End(t.Context(), created.text("jobid"), nil); err != nil {
		t.Fatal(err)
	}
	if r := o.must("uma", "queryAsyncJobResult", "jobid", created.text("jobid")); !strings.Contains(r.raw, `"password"`) {
		t.Errorf("the result of the job has no password: %s", r.raw)
	}
	for _, who := range []string{"uma", "op"} {
		r := o.must(who, "listAsyncJobs", "listall", "true")
		if len(r.items("asyncjobs")) != 1 || strings.Contains(r.raw, "password") {
			t.Errorf("%s lists %s", who, r.raw)
		}
	}
}

var isoDate = regexp.MustCompile(`\d{4}-\d\d-\d\dT[^"]*`)

// All dates of this API have the same format, also those of drift.
func TestDatesOfDrift(t *testing.T) {
	o := newFixture(t, nil)
	id := o.create("uma", "blue")
	o.set(id, func(c *cluster.Cluster) {
		c.Findings = []cluster.Finding{{Type: cluster.Missing, Resource: "w1", Since: o.now.Add(1234567 * time.Nanosecond), At: o.now.Add(time.Minute)}}
	})
	raw := o.must("uma", "getContainerClusterDrift", "id", id).raw
	dates := isoDate.FindAllString(raw, -1)
	if len(dates) < 2 {
		t.Fatalf("dates %q in %s", dates, raw)
	}
	for _, d := range dates {
		if _, err := time.Parse("2006-01-02T15:04:05-0700", d); err != nil || strings.Contains(d, ".") {
			t.Errorf("%s in %s", d, raw)
		}
	}
	if strings.Contains(raw, "null") {
		t.Errorf("null in %s", raw)
	}
}

// CLIs complete and check parameters by listApis: it contains the other names of a
// parameter, which are not required in addition to the first.
func TestListApisNamesAliases(t *testing.T) {
	o := newFixture(t, nil)
	for command, alias := range map[string]string{
		"createKubernetesCluster": "masternodes", "createContainerCluster": "cluster", "upgradeContainerCluster": "kubernetesversionid",
	} {
		params := o.must("uma", "listApis", "name", command).items("api")[0]["params"].([]any)
		at := slices.IndexFunc(params, func(p any) bool { return p.(map[string]any)["name"] == alias })
		if at < 0 {
			t.Errorf("listApis does not describe %s: %s", command, alias)
			continue
		}
		if params[at].(map[string]any)["required"] != false {
			t.Errorf("%s demands %s", command, alias)
		}
	}
}

// A CLI sends its own options too. After a 401 it tries an empty login; only a refusal
// keeps it from using a session that does not exist.
func TestWhatCLIsSendBesides(t *testing.T) {
	o := newFixture(t, nil)
	o.create("uma", "blue")
	r := o.must("uma", "listContainerCluster", "filter", strings.Repeat("name,", 200), "exclude", "id", "listall", "true", "projectid", "")
	if len(r.items("containercluster")) != 1 {
		t.Error(r.raw)
	}
	v := url.Values{"command": {"login"}, "username": {""}, "password": {""}, "domain": {""}, "response": {"json"}}
	if r := o.post(v); r.status == 200 || r.key != "loginresponse" || r.header.Get("Set-Cookie") != "" {
		t.Errorf("an empty login: %d %s", r.status, r.raw)
	}
}
