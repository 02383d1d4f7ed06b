package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
)

func text(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The image holds one static program and runs it as a user that is not root,
// from the path that `pawl operator` expects in it.
func TestDockerfile(t *testing.T) {
	file := text(t, "../../deploy/Dockerfile")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(strings.ReplaceAll(file, "\\\n", " "), -1)
	build, tools, last := stages[len(stages)-3], stages[len(stages)-2], stages[len(stages)-1]
	if !strings.HasPrefix(last, "scratch\n") {
		t.Errorf("the image begins with something: %s", last)
	}
	// The image for FoundationDB is the same on a system with a C library.
	if system, rest, _ := strings.Cut(tools, "\n"); !strings.HasSuffix(system, " AS fdb") || !strings.HasPrefix(rest, strings.TrimPrefix(last, "scratch\n")) {
		t.Errorf("the image for FoundationDB: %s", tools)
	}
	said := func(what string) string {
		m := regexp.MustCompile(`(?m)^`+what+` (.*)$`).FindAllStringSubmatch(last, -1)
		if len(m) != 1 {
			t.Fatalf("%d lines %s in the last stage", len(m), what)
		}
		return m[0][1]
	}
	user, _, _ := strings.Cut(said("USER"), ":")
	if id, err := strconv.Atoi(user); err != nil || id == 0 {
		t.Errorf("USER %s: runAsNonRoot wants a number that is not 0", user)
	}
	var entry []string
	if err := json.Unmarshal([]byte(said("ENTRYPOINT")), &entry); err != nil || len(entry) != 1 {
		t.Fatalf("ENTRYPOINT is not one program: %v", err)
	}
	operator, _, err := root(&cli.App{}).Find([]string{"operator"})
	if err != nil {
		t.Fatal(err)
	}
	if want := operator.Flag("image-entrypoint").DefValue; entry[0] != want {
		t.Errorf("ENTRYPOINT %s, --image-entrypoint %s", entry[0], want)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-o /out" + entry[0] + " ./cmd/pawl", "ca-certificates.crt", "/out/tmp", "main.version=$VERSION"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build does not say %s", want)
		}
	}
	if !strings.Contains(last, "COPY --from=build /out/ /") {
		t.Error("what was built is not in the image")
	}
}

// Nothing but the standard library asks for a C compiler, and all packages that the
// program is made of are sent to the build of the image.
func TestImageBuilds(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{len .CgoFiles}}{{end}}", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	sent := text(t, "../../deploy/Dockerfile.dockerignore")
	for line := range strings.Lines(string(out)) {
		path, cgo, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path != "" && cgo != "0" {
			t.Errorf("%s is not pure Go", path)
		}
		if room, ours := strings.CutPrefix(path, "github.com/pawl-dev/pawl/"); ours {
			if room, _, _ = strings.Cut(room, "/"); !strings.Contains(sent, "\n!"+room+"\n") {
				t.Errorf("deploy/Dockerfile.dockerignore leaves out %s", room)
			}
		}
	}
}

// The arguments in deploy/install.yaml are flags of `pawl operator`, with values
// that it takes.
func TestInstallArguments(t *testing.T) {
	decoder := yaml.NewDecoder(strings.NewReader(text(t, "../../deploy/install.yaml")))
	for {
		var o struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Args []string
						}
					}
				}
			}
		}
		if err := decoder.Decode(&o); err != nil {
			t.Fatalf("there is no Deployment: %v", err)
		}
		if o.Kind != "Deployment" {
			continue
		}
		args := o.Spec.Template.Spec.Containers[0].Args
		cmd, rest, err := root(&cli.App{Out: os.Stdout, Err: os.Stderr}).Find(args)
		if err != nil || cmd.Name() != "operator" {
			t.Fatalf("%v is %v: %v", args, cmd, err)
		}
		if err := cmd.ParseFlags(rest); err != nil || cmd.Flags().NArg() > 0 {
			t.Errorf("%v: %v, %v", rest, err, cmd.Flags().Args())
		}
		return
	}
}
