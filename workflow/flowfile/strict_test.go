package flowfile

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// TestFilesMeanWhatTheySay: a value that YAML reads differently from a person is refused.
func TestFilesMeanWhatTheySay(t *testing.T) {
	file := func(line string) string {
		return "flowName: F\n" + line + "steps:\n- {stepName: A, uses: Do, with: {for: 1s}}\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"byte order mark":      {"\ufeff" + file(""), ""},
		"CRLF":                 {strings.ReplaceAll(file(""), "\n", "\r\n"), ""},
		"tab":                  {strings.ReplaceAll(file(""), "- {", "\t- {"), "3:1: not valid YAML: found character that cannot start any token"},
		"zero byte":            {file("description: a\x00b\n"), "not valid YAML: control characters are not allowed"},
		"invalid UTF-8":        {file("description: a\xffb\n"), "not valid YAML: invalid"},
		"word for true":        {file("recoverFromFirstStep: yes\n"), `recoverFromFirstStep must be true or false, not "yes"`},
		"tagged word":          {file("recoverFromFirstStep: !!bool yes\n"), "2:23: the YAML tag !!bool is refused"},
		"tagged name":          {file("description: !mine x\n"), "2:14: the YAML tag !mine is refused"},
		"tagged list":          {"flowName: F\nsteps: !mine\n- {stepName: A, uses: Do}\n", "2:8: the YAML tag !mine is refused"},
		"merge key":            {file("input: {<<: {type: object}}\n"), "2:9: YAML merge keys are refused"},
		"quoted merge key":     {strings.Replace(file(""), "for: 1s", `"<<": 1`, 1), ""},
		"alias of itself":      {"flowName: F\nsteps: &a [*a]\n", "2:12: YAML aliases are refused"},
		"number as a name":     {"flowName: 5\nsteps:\n- {stepName: A, uses: Do}\n", `flowName "5" is not a name`},
		"letters of elsewhere": {"flowName: Α\nsteps:\n- {stepName: A, uses: Do}\n", `flowName "Α" is not a name`},
		"line break in a name": {"flowName: \"F\\n\"\nsteps:\n- {stepName: A, uses: Do}\n", "is not a name"},
		"very deep":            {strings.Replace(file(""), "1s", strings.Repeat("[", 9000)+strings.Repeat("]", 9000), 1), "nested more than 200 deep"},
		"deeper than YAML":     {strings.Replace(file(""), "1s", strings.Repeat("[", 90000)+strings.Repeat("]", 90000), 1), "exceeded max depth"},
		"something behind":     {file("") + "...\n{", "not valid YAML"},
	} {
		l := &callLog{}
		_, err := Parse([]File{{Name: "f.yaml", Data: []byte(c.text)}}, Options{Actions: []workflow.Action{l.action()}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestManyStepsWithoutNames: generated names take no longer than written ones.
func TestManyStepsWithoutNames(t *testing.T) {
	const most = 9_000
	l := &callLog{}
	began := time.Now()
	set, err := Parse([]File{{Name: "f.yaml", Data: []byte("flowName: F\nsteps:\n" + strings.Repeat("- uses: Do\n", most))}}, Options{Actions: []workflow.Action{l.action()}})
	if err != nil {
		t.Fatal(err)
	}
	steps := set.Flows()[0].Steps
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d steps took %s", most, took)
	}
	if steps[0].Name != "Do" || steps[1].Name != "Do#2" || steps[most-1].Name != "Do#9000" {
		t.Errorf("names %s %s … %s", steps[0].Name, steps[1].Name, steps[most-1].Name)
	}
}

func TestDefinitionsThatAreTooDeep(t *testing.T) {
	for _, source := range []string{strings.Repeat("[", 5<<20), strings.Repeat(`{"a":`, 1<<20)} {
		if _, err := FromSource([]byte(source), Options{}); err == nil || !strings.Contains(err.Error(), "nested more than") {
			t.Errorf("%.20s…: %v", source, err)
		}
	}
}
