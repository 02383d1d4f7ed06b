package cli

import (
	"strings"
	"testing"
)

// YAML keeps what JSON says: order, types, texts that look like something else.
func TestYAML(t *testing.T) {
	text, err := ToYAML([]byte(`{"z":1,"a":"1","b":true,"c":"true","d":null,"e":"x: y","f":[],"g":{},"h":"two\nlines","i":9007199254740993,"j":"2020-01-01"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "z: 1\na: \"1\"\nb: true\nc: \"true\"\nd: null\ne: 'x: y'\nf: []\ng: {}\nh: |-\n  two\n  lines\ni: 9007199254740993\nj: \"2020-01-01\"\n"
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	back, err := ToJSON("x", []byte(text))
	if err != nil || !strings.Contains(string(back), `"j":"2020-01-01"`) {
		t.Errorf("read back: %s %v", back, err)
	}
}
