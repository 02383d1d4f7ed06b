package bootstrap_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/fault"
)

var seed = bootstrap.Data{
	Home: "http://127.0.0.1:7295", Cluster: "6f1c", Node: "blue-6f1c-control1", Role: cluster.Control, Token: "very secret",
}

// cloud-init can read the result of Encode: YAML with one file, whose content is the document.
func TestBootstrapIsCloudConfig(t *testing.T) {
	text, err := seed.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "#cloud-config\n") {
		t.Fatalf("it begins with %.20q", text)
	}
	var c struct {
		WriteFiles []struct{ Path, Owner, Permissions, Encoding, Content string } `yaml:"write_files"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.WriteFiles) != 1 || c.WriteFiles[0].Path != bootstrap.Path || c.WriteFiles[0].Permissions != "0600" || c.WriteFiles[0].Encoding != "b64" {
		t.Fatalf("write_files: %+v", c.WriteFiles)
	}
}

func TestBootstrapComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.StringN(1, 40, -1)
		b := bootstrap.Data{
			Home: some.Draw(t, "home"), HomeCA: rapid.String().Draw(t, "ca"), Cluster: some.Draw(t, "cluster"), Node: some.Draw(t, "node"),
			Role: rapid.SampledFrom([]cluster.Role{cluster.Control, cluster.Worker}).Draw(t, "role"), Version: rapid.String().Draw(t, "version"),
			Token: cluster.Secret(rapid.String().Draw(t, "token")), Control: rapid.String().Draw(t, "control"), CAHash: rapid.String().Draw(t, "hash"),
		}
		template := rapid.SampledFrom([]string{"", "#cloud-config\nruncmd:\n- [start, \"{{.Role}}\"]\nwrite_files:\n- path: /x\n  content: \"{{.Document}}\"\n- content: other\n"}).Draw(t, "template")
		text, err := b.Render(template)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := bootstrap.Parse(text); err != nil || back != b {
			t.Fatalf("came back as %+v, %v", back, err)
		}
	})
}

// Only the user data contains the token; every other printed form of a bootstrap hides it.
func TestBootstrapHidesItsToken(t *testing.T) {
	document, err := json.Marshal(seed)
	if err != nil {
		t.Fatal(err)
	}
	template, err := seed.Render("{{.Token}} {{.Home}}")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", seed, seed, seed), string(document), string(template)} {
		if strings.Contains(text, seed.Token.Reveal()) {
			t.Errorf("it shows: %s", text)
		}
	}
}

func TestBootstrapRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":           "",
		"another text":      "#cloud-config\nruncmd: []\n",
		"content of others": "#cloud-config\nwrite_files:\n- content: aGVsbG8=\n",
		"no role":           `{"home":"h","cluster":"c","node":"n"}`,
		"a strange role":    `{"home":"h","cluster":"c","node":"n","role":"etcd"}`,
		"no home":           `{"cluster":"c","node":"n","role":"worker"}`,
		"broken JSON":       `{"home"`,
	} {
		if _, err := bootstrap.Parse([]byte(text)); fault.Of(err) != cluster.ClusterInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, template := range []string{"{{", "{{.Nobody}}"} {
		if _, err := seed.Render(template); fault.Of(err) != cluster.ClusterInvalid {
			t.Errorf("%s: %v", template, err)
		}
	}
}

func TestCAHash(t *testing.T) {
	const one = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"
	if got := bootstrap.CAHash(one); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(got) // SHA-256 of abc
	}
	if got := bootstrap.CAHash("no PEM"); got != "" {
		t.Error(got)
	}
}
