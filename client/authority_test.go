package client_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// A server is trusted by the authority that is given, and by no other.
func TestCertificateAuthority(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"name":"ann","role":"user"}`))
	}))
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c, err := client.New(client.Options{URL: s.URL + "/", CertificateAuthority: authority})
	if err != nil {
		t.Fatal(err)
	}
	if me, err := c.Me(t.Context()); err != nil || me.Name != "ann" {
		t.Errorf("%+v, %v", me, err)
	}
	if c.URL() != s.URL {
		t.Errorf("its address is %s, want %s", c.URL(), s.URL)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c, err = client.New(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Me(t.Context()); fault.Of(err) != client.Unreachable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger was trusted: %v", err)
	}
	if _, err := client.New(client.Options{URL: s.URL, CertificateAuthority: []byte("no certificate")}); fault.Of(err) != runtype.InputInvalid {
		t.Errorf("an authority without a certificate: %v", err)
	}
}
