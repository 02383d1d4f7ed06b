package cloudstack

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // as the API signs
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The vectors of the API's specification.
func TestSignVectors(t *testing.T) {
	params := map[string]string{
		"Size": "3", "apikey": "EXAMPLE-KEY", "command": "createContainerCluster", "name": "blue team ~1", "response": "json",
	}
	if got, want := canonical(params), "size=3&apikey=example-key&command=createcontainercluster&name=blue%20team%20%7e1&response=json"; got != want {
		t.Errorf("signed text\n%s, want\n%s", got, want)
	}
	if got := sign(params, "EXAMPLE-SECRET"); got != "F0GgXw4MZ1vQ6mYGho04z9UlzXw=" {
		t.Errorf("signature %s", got)
	}
	bare := strings.Replace(canonical(params), "%7e", "~", 1)
	mac := hmac.New(sha1.New, []byte("EXAMPLE-SECRET"))
	mac.Write([]byte(bare))
	if got := base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != "f6IrQcYXcgIoQ030lxnWtP3GvjI=" {
		t.Errorf("with a bare tilde, which we never send: %s", got)
	}
	params["signature"] = "anything"
	if got := sign(params, "EXAMPLE-SECRET"); got != "F0GgXw4MZ1vQ6mYGho04z9UlzXw=" {
		t.Errorf("the signature is signed too: %s", got)
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"aZ09-.*_": "aZ09-.*_", " ": "%20", "+": "%2B", "/=": "%2F%3D", "ü": "%C3%BC", "[0]": "%5B0%5D", "a,b": "a%2Cb", "\x00\n": "%00%0A", "'()!": "%27%28%29%21", "€": "%E2%82%AC",
	} {
		if got := escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// The server must receive the signed values, whatever characters they contain.
func TestWhatIsSentIsWhatWasSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.MapOf(rapid.StringMatching(`[a-zA-Z]{1,8}(\[[0-9]\]\.key)?`), rapid.String()).Draw(t, "params")
		arrived, err := url.ParseQuery(encode(params))
		if err != nil {
			t.Fatal(err)
		}
		again := map[string]string{}
		for name := range arrived {
			again[name] = arrived.Get(name)
		}
		if len(again) != len(params) || canonical(again) != canonical(params) {
			t.Errorf("%q arrives as %q", params, again)
		}
	})
}
