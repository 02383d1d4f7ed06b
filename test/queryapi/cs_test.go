package queryapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/account"
)

// cs is the CLI of Debian's package cs, an independent client in Python: GET or POST,
// version 3 of signatures or none, one top-level key per answer, and jobs followed to
// their end. Its command is cloudstack.
type cs struct {
	t    *testing.T
	path string
	env  []string
}

// newCS finds the CLI; without it the test is skipped.
func newCS(t *testing.T, url string, key account.Key) *cs {
	t.Helper()
	path, err := exec.LookPath("cloudstack")
	if err != nil {
		t.Skip("cloudstack, of the package cs, is not in the PATH")
	}
	return &cs{t, path, append(os.Environ(), "HOME="+t.TempDir(), "CLOUDSTACK_ENDPOINT="+url, "CLOUDSTACK_KEY="+key.ID,
		"CLOUDSTACK_SECRET="+key.Secret.Reveal(), "CLOUDSTACK_METHOD=get", "CLOUDSTACK_TIMEOUT=30", "CLOUDSTACK_POLL_INTERVAL=0.2")}
}

// with returns a copy with another setting.
func (c *cs) with(setting string) *cs { return &cs{c.t, c.path, append(slices.Clip(c.env), setting)} }

// ask runs a command and returns its output and exit code.
func (c *cs) ask(args ...string) (map[string]any, int) {
	c.t.Helper()
	run := exec.CommandContext(c.t.Context(), c.path, args...)
	run.Env = c.env
	text, err := run.Output()
	code, said := 0, ""
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code, said = exit.ExitCode(), string(exit.Stderr)
	} else if err != nil {
		c.t.Fatal(err)
	}
	var body map[string]any
	if len(text) > 0 {
		err = json.Unmarshal(text, &body)
	}
	if err != nil && code == 0 || strings.Contains(said, "Traceback") {
		c.t.Fatalf("cloudstack %s: %v\n%s\n%s", strings.Join(args, " "), err, text, said)
	}
	return body, code
}

// must runs a command that must succeed.
func (c *cs) must(args ...string) map[string]any {
	c.t.Helper()
	body, code := c.ask(args...)
	if code != 0 {
		c.t.Fatalf("cloudstack %s: exit code %d, %v", strings.Join(args, " "), code, body)
	}
	return body
}

// refused runs a command that must fail with one envelope of that key, that code, and a
// text that contains that word.
func (c *cs) refused(envelope string, number int, word string, args ...string) {
	c.t.Helper()
	body, code := c.ask(args...)
	inside, _ := body[envelope].(map[string]any)
	text, _ := inside["errortext"].(string)
	if code == 0 || len(body) != 1 || inside["errorcode"] != float64(number) || !strings.Contains(text, word) {
		c.t.Errorf("cloudstack %s: exit code %d, %v; want %s with %d and %q", strings.Join(args, " "), code, body, envelope, number, word)
	}
}

func first(list any) map[string]any {
	if all, ok := list.([]any); ok && len(all) > 0 {
		one, _ := all[0].(map[string]any)
		return one
	}
	return nil
}

// Each family of commands on the real service and a simulated cloud.
func TestCS(t *testing.T) {
	url, key := realService(t)
	c := newCS(t, url, key)
	zone, offering := first(c.must("listZones")["zone"])["id"], first(c.must("listServiceOfferings")["serviceoffering"])["id"]
	if version := first(c.must("listKubernetesSupportedVersions")["kubernetessupportedversion"]); version["id"] != "v1" {
		t.Fatalf("versions: %v", version)
	}
	if none := c.must("listContainerCluster"); len(none) != 0 {
		t.Errorf("an empty list: %v", none)
	}
	const oddText = "it's ~ a * test (+/=&%) äöü"
	where := []string{fmt.Sprint("zoneid=", zone), fmt.Sprint("serviceofferingid=", offering), "description=" + oddText}
	blue, _ := c.must(append([]string{"createContainerCluster", "name=blue", "size=2"}, where...)...)["containercluster"].(map[string]any)
	if blue["state"] != "Running" || blue["size"] != "2" || blue["description"] != oddText || blue["password"] == nil {
		t.Fatalf("create: %v", blue)
	}
	green, _ := c.must(append([]string{"--post", "createKubernetesCluster", "name=green", "size=1", "kubernetesversionid=v1"}, where...)...)["kubernetescluster"].(map[string]any)
	if green["state"] != "Running" || green["size"] != 1.0 || green["description"] != oddText {
		t.Fatalf("create by POST: %v", green)
	}
	id, other := fmt.Sprint("id=", blue["id"]), fmt.Sprint("id=", green["id"])
	if old := c.with("CLOUDSTACK_EXPIRATION=-1").must("listContainerCluster", "keyword=~ A *"); old["count"] != 2.0 {
		t.Errorf("signed without a version: %v", old)
	}
	if page := c.must("listContainerCluster", "page=2", "pagesize=1"); page["count"] != 2.0 || first(page["containercluster"])["name"] != "green" {
		t.Errorf("the second page: %v", page)
	}
	if jobs := c.must("listAsyncJobs", "keyword=create"); jobs["count"] != 2.0 || strings.Contains(fmt.Sprint(jobs), "password") {
		t.Errorf("jobs: %v", jobs)
	}
	if plan, _ := c.must("scaleContainerCluster", id, "size=3", "dryrun=true")["plan"].(map[string]any); len(plan) == 0 {
		t.Error("a dry run has no plan")
	}
	if up, _ := c.must("scaleContainerCluster", id, "size=3")["containercluster"].(map[string]any); up["size"] != "3" {
		t.Errorf("scale: %v", up)
	}
	if config, _ := c.must("getKubernetesClusterConfig", other)["clusterconfig"].(map[string]any); !strings.Contains(fmt.Sprint(config["configdata"]), "server:") {
		t.Errorf("config: %v", config)
	}
	for range 2 { // the second call finds it stopped, and succeeds
		if done := c.must("stopContainerCluster", id); done["success"] != true {
			t.Errorf("stop: %v", done)
		}
	}
	c.refused("scalecontainerclusterresponse", 531, "Stopped", "scaleContainerCluster", id, "size=2")
	if up, _ := c.must("--post", "startContainerCluster", id)["containercluster"].(map[string]any); up["state"] != "Running" {
		t.Errorf("start: %v", up)
	}
	for _, gone := range [][]string{{"deleteContainerCluster", id}, {"--post", "deleteKubernetesCluster", other}} {
		if done := c.must(gone...); done["success"] != true {
			t.Errorf("%v: %v", gone, done)
		}
	}
	c.refused("startcontainerclusterresponse", 431, "entity does not exist", "startContainerCluster", id)
	if left := c.must("listKubernetesClusters"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A refusal reaches a CLI as an error in the right envelope.
func TestCSErrors(t *testing.T) {
	h := newFixture(t, false)
	c := newCS(t, h.url, h.key)
	c.with("CLOUDSTACK_SECRET=wrong").refused("listzonesresponse", 401, "credentials", "listZones")
	c.with("CLOUDSTACK_KEY=unknown").refused("listzonesresponse", 401, "credentials", "listZones")
	c.refused("errorresponse", 432, "listZoness", "listZoness")
	c.refused("createcontainerclusterresponse", 431, "name", "createContainerCluster")
	c.refused("createcontainerclusterresponse", 431, "size", "createContainerCluster", "name=x", "zoneid=z1", "serviceofferingid=o1", "size=two")
	c.refused("createkubernetesclusterresponse", 431, "etcdnodes", "createKubernetesCluster", "name=x", "zoneid=z1", "serviceofferingid=o1", "size=2", "kubernetesversionid=v1", "etcdnodes=3")
	c.refused("listcontainerclusterresponse", 431, "pagesize", "listContainerCluster", "page=1", "pagesize=501")
	c.refused("deletecontainerclusterresponse", 431, "id", "deleteContainerCluster", "id=abc")
	c.refused("listcontainerclusterleaksresponse", 401, "operators", "listContainerClusterLeaks")
	if got := c.must("listZones", "filter=id,name", "listall=true"); got["count"] != 2.0 {
		t.Errorf("with parameters of clients: %v", got)
	}
	c.refused("listzonesresponse", 431, "projectid", "listZones", "projectid=1") // finding 19

	strict := newFixture(t, true)
	c = newCS(t, strict.url, strict.key)
	c.with("CLOUDSTACK_EXPIRATION=-1").refused("listzonesresponse", 401, "credentials", "listZones")
	created := []string{"createContainerCluster", "name=blue", "zoneid=z1", "serviceofferingid=o1", "size=2"}
	c.refused("createcontainerclusterresponse", 400, "POST", created...)
	if blue, _ := c.must(append([]string{"--post"}, created...)...)["containercluster"].(map[string]any); blue["state"] != "Running" {
		t.Errorf("by POST: %v", blue)
	}
}
