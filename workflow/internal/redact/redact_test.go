package redact

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestRedactor(t *testing.T) {
	var r Redactor
	r.Add("")
	if r.Any() {
		t.Error("an empty value is a secret")
	}
	r.Add("abc")
	r.Add("abcdef")
	r.Add("42")
	for text, want := range map[string]string{"x abcdef y abc": "x *** y ***", "none": "none"} {
		if got := r.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	for value, want := range map[string]string{
		`{"abc":["abcdef",42,421,true]}`: `{"***":["***","***",421,true]}`,
		`"\u0061bc"`:                     `"***"`,
		`broken`:                         `"***"`,
	} {
		if got := string(r.JSON([]byte(value))); got != want {
			t.Errorf("%s became %s, want %s", value, got, want)
		}
	}
}

func TestHandler(t *testing.T) {
	var r Redactor
	r.Add("hunter2")
	var out bytes.Buffer
	log := slog.New(Handler{Handler: slog.NewTextHandler(&out, nil), Redactor: &r}).With("token", "hunter2").WithGroup("g")
	log.Info("it is hunter2", "a", "hunter2", slog.Group("b", "c", []string{"hunter2"}))
	if strings.Contains(out.String(), "hunter2") || strings.Count(out.String(), "***") != 4 {
		t.Error(out.String())
	}
}
