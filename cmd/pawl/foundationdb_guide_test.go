package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/backups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
)

// The guide of FoundationDB is played in the simulated world by TestGuide of operator/foundationdb/clusters. Here
// everything else that it names is compared with what there is: files, flags, values, patches, conditions, reasons.

func foundationdbGuide(t *testing.T) string { return text(t, "../../docs/guide/foundationdb.md") }

// section returns the part of a page below a heading.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the guide has no section %q", heading)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

// TestFoundationDBGuideCommands: the commands of the page can be given: files are there, patches make valid objects,
// conditions and annotations are known, flags and values exist.
func TestFoundationDBGuideCommands(t *testing.T) {
	page := foundationdbGuide(t)
	objects := map[string]string{"fdb": "cluster", "fdbbackup": "backup", "fdbrestore": "restore"}
	commands := 0
	for _, block := range regexp.MustCompile("(?ms)^```sh[^\n]*\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", "")) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			commands++
			for _, m := range regexp.MustCompile(`-f (\S+)`).FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
			for _, m := range regexp.MustCompile(`(?:get|describe|patch|annotate|explain) (fdb\w*)|(fdb\w*)/orders`).FindAllStringSubmatch(line, -1) {
				if kind := m[1] + m[2]; objects[kind] == "" {
					t.Errorf("%s: no kind is called %s", line, kind)
				}
			}
			for _, m := range regexp.MustCompile(`--for=condition=(\w+)|@\.type=="(\w+)"`).FindAllStringSubmatch(line, -1) {
				if kind := m[1] + m[2]; !slices.Contains(clusterConditions(), kind) {
					t.Errorf("%s: there is no condition %s", line, kind)
				}
			}
			if m := regexp.MustCompile(`kubectl patch (\w+) orders --type merge -p '(.*)'`).FindStringSubmatch(line); m != nil {
				if err := patchedExample(objects[m[1]], m[2]); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
	verbs := regexp.MustCompile("(?m)kubectl pawl (fdb [^#`]*?)\\s*(?:#.*)?(?:$|`)").FindAllStringSubmatch(strings.ReplaceAll(page, "approve\n", "approve "), -1)
	for _, m := range verbs {
		verb, rest, err := root(&cli.App{}).Find(strings.Fields(m[1]))
		if err == nil && !verb.Runnable() {
			err = fmt.Errorf("it is a group of verbs")
		}
		if err == nil {
			err = verb.ParseFlags(rest)
		}
		if err == nil && verb.Args != nil {
			err = verb.Args(verb, verb.Flags().Args())
		}
		if err != nil {
			t.Errorf("pawl %s: %v", m[1], err)
		}
	}
	if commands < 25 || len(verbs) < 8 {
		t.Fatalf("only %d commands and %d verbs were read", commands, len(verbs))
	}
	operator, _, err := root(&cli.App{}).Find([]string{"operator"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`--(fdb-[a-z-]+)(?:=([\w-]+))?`).FindAllStringSubmatch(page, -1) {
		if f := operator.Flag(m[1]); f == nil && m[1] != "fdb-" {
			t.Errorf("pawl operator has no flag --%s", m[1])
		} else if f != nil && m[2] != "" {
			if err := f.Value.Set(m[2]); err != nil {
				t.Errorf("--%s=%s: %v", m[1], m[2], err)
			}
		}
	}
	var values struct{ Foundationdb map[string]any }
	if err := yaml.Unmarshal([]byte(text(t, "../../deploy/chart/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\bfoundationdb\.([a-z]\w+)`).FindAllStringSubmatch(page, -1) {
		if _, there := values.Foundationdb[m[1]]; !there && !slices.Contains([]string{"org", "md"}, m[1]) {
			t.Errorf("the chart has no value foundationdb.%s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`pawl\.dev/\w+`).FindAllString(page, -1) {
		if !slices.Contains([]string{foundationdb.HoldAnnotation, foundationdb.ApproveAnnotation, clusters.AdoptedAnnotation}, m) {
			t.Errorf("no annotation is called %s", m)
		}
	}
}

// patchedExample applies a merge patch to an example, as the API server does, and judges the result.
func patchedExample(name, patch string) error {
	raw, err := os.ReadFile("../../examples/foundationdb/" + name + ".yaml")
	if err != nil {
		return err
	}
	var object, change any
	if err := yaml.Unmarshal(raw, &object); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(patch), &change); err != nil {
		return err
	}
	merged, err := json.Marshal(mergePatch(object, change))
	if err != nil {
		return err
	}
	var problems []foundationdb.Problem
	switch name {
	case "cluster":
		c := &v1beta2.FoundationDBCluster{}
		err = yaml.UnmarshalStrict(merged, c)
		problems = foundationdb.Validate(c)
	case "backup":
		b := &v1beta2.FoundationDBBackup{}
		err = yaml.UnmarshalStrict(merged, b)
		problems = foundationdb.ValidateBackup(b)
	default:
		return fmt.Errorf("the guide changes no %s", name)
	}
	if err != nil {
		return err
	}
	return foundationdb.Refused(foundationdb.SpecInvalid, problems)
}

// mergePatch is RFC 7396.
func mergePatch(target, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, _ := target.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	for key, value := range change {
		if value == nil {
			delete(object, key)
		} else {
			object[key] = mergePatch(object[key], value)
		}
	}
	return object
}

func clusterConditions() []string {
	return []string{
		condition.TypeReady, clusters.TypeReconciled, condition.TypeProgressing, clusters.TypeAvailable, clusters.TypeFullReplication, clusters.TypeDegraded,
		clusters.TypeResizing, clusters.TypeUpgradeBlocked, clusters.TypeFieldsIgnored, clusters.TypePaused, clusters.TypeAdopted, clusters.TypeStatusPruned,
	}
}

// TestFoundationDBGuideTables: the tables name all conditions, reasons that the code has, and the columns of kubectl.
func TestFoundationDBGuideTables(t *testing.T) {
	page := foundationdbGuide(t)
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section(t, page, "See what it does"), -1) {
		named = append(named, m[1])
	}
	if want := clusterConditions(); !slices.Equal(named, want) {
		t.Errorf("the guide's conditions are %v, those of the code %v", named, want)
	}
	if !strings.Contains(page, "`"+backups.PauseIsGlobalCondition+"`") {
		t.Error("the guide does not name the condition of backups")
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				AdditionalPrinterColumns []struct{ Name string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, "../../deploy/fdb/apps.foundationdb.org_foundationdbclusters.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	columns := []string{"NAME"}
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, strings.ToUpper(c.Name))
	}
	if header := regexp.MustCompile(`(?m)^NAME .*$`).FindString(page); !slices.Equal(strings.Fields(header), columns) {
		t.Errorf("kubectl shows the columns %v, and the guide %s", columns, header)
	}

	source := sourcesOf(t, "../../fdb", "../../kube/api/fdb/v1beta2", "../../operator/foundationdb/clusters", "../../operator/foundationdb/clusters/internal/*", "../../operator/foundationdb")
	table := func(heading string) string {
		text := section(t, page, heading)
		return text[strings.Index(text, "| reason |")+1:]
	}
	reasons := regexp.MustCompile("`([A-Z][a-z]+[A-Z]\\w+)`")
	for _, m := range append(reasons.FindAllStringSubmatch(table("Change it"), -1), reasons.FindAllStringSubmatch(section(t, page, "If it does not go on"), -1)...) {
		name := m[1]
		if _, known := fault.Lookup(name); !known && !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("no reason or condition is called %s", name)
		}
	}
	for _, code := range regexp.MustCompile(`FDB_[A-Z]+_[A-Z_]+[A-Z]`).FindAllString(page, -1) {
		if _, known := fault.Lookup(code); !known && !strings.HasPrefix(code, "FDB_BLOB_CREDENTIALS") {
			t.Errorf("there is no fault %s", code)
		}
	}
	links := regexp.MustCompile(`pawl\.dev/hold=(\S+)`).FindStringSubmatch(page)
	for link := range strings.SplitSeq(links[1], ",") {
		if !strings.Contains(source, `{Name: "`+link+`"`) {
			t.Errorf("no link is called %s", link)
		}
	}
}

// sourcesOf is the code of folders, without tests.
func sourcesOf(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				all.WriteString(text(t, file))
			}
		}
	}
	return all.String()
}
