package strict_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/pawl-dev/pawl/rollout/internal/strict"
)

type ticket struct {
	Name  string            `json:"name"`
	Count *int              `json:"count,omitempty"`
	Lines []line            `json:"lines"`
	Notes map[string]string `json:"notes"`
	Even  even              `json:"even"`
}

type line struct {
	Done bool `json:"done"`
}

// even is a number that reads itself.
type even int

func (e *even) UnmarshalJSON(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n%2 != 0 {
		return fmt.Errorf("%s is not even", text)
	}
	*e = even(n)
	return nil
}

func TestDecode(t *testing.T) {
	var got ticket
	if err := strict.Decode("ticket", []byte(`{"name":"a","count":3,"lines":[{"done":true},{}],"notes":{"b":"c"},"even":4}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "a" || *got.Count != 3 || len(got.Lines) != 2 || !got.Lines[0].Done || got.Notes["b"] != "c" || got.Even != 4 {
		t.Fatalf("%+v", got)
	}
}

func TestDecodeNamesThePath(t *testing.T) {
	for _, test := range []struct{ text, path, message string }{
		{`[]`, "", "a ticket is a JSON object, not a list"},
		{`{} 1`, "", "there is more text behind the ticket"},
		{`{"Name":"a"}`, "Name", "there is no such field; it is spelled name"},
		{`{"lines":[{},{"x":1}]}`, "lines[1].x", "there is no such field; there are done"},
		{`{"lines":{}}`, "lines", "it must be a list, not an object"},
		{`{"lines":[{"done":1}]}`, "lines[0].done", "it must be true or false, not 1"},
		{`{"count":1.5}`, "count", "it must be a whole number, not 1.5"},
		{`{"even":3}`, "even", "3 is not even"},
	} {
		var got ticket
		err := strict.Decode("ticket", []byte(test.text), &got)
		var unfit *strict.Error
		if !errors.As(err, &unfit) || unfit.Path != test.path || unfit.Message != test.message {
			t.Errorf("%s: %v", test.text, err)
		}
	}
}
