package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
)

type entry struct {
	Name string            `json:"name"`
	Size int64             `json:"size,omitempty"`
	Tags map[string]string `json:"tags,omitempty"`
}

var entries = []entry{{"b", 1_000_000, map[string]string{"tier": "gold"}}, {"a", 9, nil}, {"c", 0, nil}}

func TestPartsOfAResult(t *testing.T) {
	for output, want := range map[string]string{
		"jsonpath={.items[*].name}":                            "b a c",
		"jsonpath=.items[0].size":                              "1000000",
		`jsonpath={range .items[*]}{.name}={.size}{"\n"}{end}`: "b=1000000\na=9\nc=\n",
		"jsonpath={.items[?(@.size>10)].name}":                 "b",
		"jsonpath={.nothing}":                                  "",
		"custom-columns=NAME:.name,SIZE:.size,TIER:{.tags.tier},TAGS:.tags": "NAME  SIZE     TIER    TAGS\n" +
			"b     1000000  gold    {\"tier\":\"gold\"}\na     9        <none>  <none>\nc     <none>   <none>  <none>\n",
	} {
		var out bytes.Buffer
		a := &App{Out: &out, Err: &bytes.Buffer{}, Flags: Flags{Output: output}}
		if err := a.CheckFlags(); err != nil {
			t.Fatal(err)
		}
		if err := a.Emit(ListOf(entries), nil, nil); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", output, err, out.String(), want)
		}
	}
	var out bytes.Buffer
	a := &App{Out: &out, Flags: Flags{Output: "custom-columns=N:name"}}
	if err := a.Emit(entries[0], nil, nil); err != nil || out.String() != "N\nb\n" {
		t.Errorf("one entry: %v, %s", err, out.String())
	}
	for output, says := range map[string]string{
		"xml": "it is text, wide, json, yaml, name, jsonpath=TEMPLATE", "jsonpath={.x": "unclosed", "custom-columns=NAME": "is no HEAD:PATH", "custom-columns=A:{": "unclosed",
	} {
		a := &App{Flags: Flags{Output: output}}
		if err := a.CheckFlags(); fault.Of(err) != Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", output, err)
		}
	}
}

func TestSortBy(t *testing.T) {
	for path, want := range map[string]string{"": "bac", ".name": "abc", "name": "abc", "{.size}": "abc", ".tags.tier": "bac"} {
		got := slices.Clone(entries)
		if err := SortBy(got, path); err != nil {
			t.Fatal(err)
		}
		if names := strings.Join(NamesOf(got, func(x entry) string { return x.Name }), ""); names != want {
			t.Errorf("by %s: %s, want %s", path, names, want)
		}
	}
	for _, path := range []string{".nothing", "{.x"} {
		if err := SortBy(slices.Clone(entries), path); fault.Of(err) != Usage {
			t.Errorf("by %s: %v", path, err)
		}
	}
	if err := SortBy([]entry{}, ".nothing"); err != nil {
		t.Error(err)
	}
}
