package cloudsign

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var blue = map[string]string{
	"Size": "3", "apiKey": "EXAMPLE-KEY", "command": "createContainerCluster", "name": "Blue Team ~1", "response": "json",
}

// Signatures of other clients.
func TestSignatureVectors(t *testing.T) {
	const escaped, bare = "F0GgXw4MZ1vQ6mYGho04z9UlzXw=", "f6IrQcYXcgIoQ030lxnWtP3GvjI="
	if got := order(blue).Text(Strict); got != "size=3&apikey=example-key&command=createcontainercluster&name=blue%20team%20%7e1&response=json" {
		t.Errorf("the text is %s", got)
	}
	if got := Sign("EXAMPLE-SECRET", blue); got != escaped {
		t.Errorf("our own form is %s", got)
	}
	for signature, want := range map[string]bool{
		escaped: true, bare: true, "": false, "F0GgXw4MZ1vQ6mYGho04z9UlzXx=": false, strings.ToLower(escaped): false, "not base64": false, escaped + "A": false,
	} {
		if got := Verify("EXAMPLE-SECRET", signature, order(blue)); got != want {
			t.Errorf("%q: %v", signature, got)
		}
	}
	if Verify("EXAMPLE-SECRES", escaped, order(blue)) {
		t.Error("another secret fits")
	}
}

// Names are sorted unescaped by code units: upper case first, and U+FF5E after surrogate pairs.
func TestOrderOfNames(t *testing.T) {
	got := order(map[string]string{"b": "1", "B": "2", "a": "3", "～": "4", "😀": "5", "Signature": "x", "é": "6"}).Text(Strict)
	if got != "b=2&a=3&b=1&é=6&😀=5&～=4" {
		t.Errorf("got %s", got)
	}
}

func TestEncoding(t *testing.T) {
	for value, want := range map[string]string{
		"AZaz09-._*": "azaz09-._*", " ": "%20", "+": "%2b", "~": "%7e", "ä/€": "%c3%a4%2f%e2%82%ac", "a=b&c": "a%3db%26c", "%": "%25", "[0].k": "%5b0%5d.k",
	} {
		if got := (Params{{"x", value}}).Text(Strict); got != "x="+want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// Clients that escape as in forms escape `*` too.
func TestClientsThatEscapeLikeForms(t *testing.T) {
	params := map[string]string{"command": "listZones", "keyword": "a*b ~c"}
	form := strings.ReplaceAll(strings.ToLower(url.Values{"command": {"listZones"}, "keyword": {"a*b ~c"}}.Encode()), "+", "%20")
	if got := order(params).Text(HTML); got != form {
		t.Errorf("%s, want %s", got, form)
	}
}

// Every signature verifies, and does not if one parameter is changed.
func TestSignedVerifies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.MapOfN(rapid.StringN(1, 10, -1), rapid.String(), 1, 8).Draw(t, "params")
		secret := rapid.StringN(1, 40, -1).Draw(t, "secret")
		signature := Sign(secret, params)
		if !Verify(secret, signature, order(params)) {
			t.Fatal("it does not verify")
		}
		params["added"] += "x"
		if Verify(secret, signature, order(params)) {
			t.Fatal("it verifies with a parameter more")
		}
	})
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"aZ09-.*_": "aZ09-.*_", " ": "%20", "+": "%2B", "/=": "%2F%3D", "ü": "%C3%BC", "[0]": "%5B0%5D", "a,b": "a%2Cb", "\x00\n": "%00%0A", "'()!": "%27%28%29%21", "€": "%E2%82%AC",
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestSignatureIsNotSigned(t *testing.T) {
	withSignature := map[string]string{"signature": "anything"}
	for name, value := range blue {
		withSignature[name] = value
	}
	if Sign("EXAMPLE-SECRET", withSignature) != Sign("EXAMPLE-SECRET", blue) {
		t.Error("the signature is signed too")
	}
}
