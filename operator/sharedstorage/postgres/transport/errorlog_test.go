package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The causes of failed handshakes are told once in ten minutes each, whoever brings them about, and a flood of causes
// as one.
func TestErrorLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		l := ErrorLog(slog.New(slog.NewTextHandler(&said, nil)))
		tell := func(cause string) (lines int) {
			said.Reset()
			for n := range 100 {
				l.Printf("http: TLS handshake error from 10.0.0.9:%d: %s", 40000+n, strings.ReplaceAll(cause, "N", fmt.Sprint(n)))
			}
			return strings.Count(said.String(), "\n")
		}
		for _, cause := range []string{"EOF", "read tcp 10.0.0.1:7298->10.0.0.9:N: read: connection reset by peer"} {
			if lines := tell(cause); lines != 1 {
				t.Errorf("%d lines of %s", lines, cause)
			}
		}
		if lines := tell("EOF"); lines != 0 {
			t.Errorf("%d lines again", lines)
		}
		time.Sleep(sayAgainAfter)
		if lines := tell("EOF"); lines != 1 || !strings.Contains(said.String(), "repeated=199") {
			t.Errorf("%d lines after a while: %s", lines, said.String())
		}
		if lines := tell("cause N"); lines > maxCauses {
			t.Errorf("%d lines of a hundred causes", lines)
		}
		said.Reset()
		l.Print("http: panic serving 10.0.0.9:40000: no")
		l.Print("http: panic serving 10.0.0.9:40000: no")
		if lines := strings.Count(said.String(), "\n"); lines != 2 || !strings.Contains(said.String(), "level=ERROR") {
			t.Errorf("what is no handshake: %s", said.String())
		}
	})
}

// A port scan of a real server is one line.
func TestAPortScan(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(lines, 64)
	s := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: ErrorLog(slog.New(slog.NewTextHandler(said, nil)))}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(NewListener(l, Open(FolderOptions{Dir: t.TempDir()})))
	}()
	for range 20 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("\x16\x03\x01\x00\x05hello"))
		_, _ = conn.Read(make([]byte, 64)) // until it is refused
		_ = conn.Close()
	}
	if first := <-said; !strings.Contains(first, "a TLS handshake failed") || !strings.Contains(first, "remote=127.0.0.1:") {
		t.Error(first)
	}
	_ = s.Close()
	<-served
	if len(said) > 0 {
		t.Errorf("and another line: %s", <-said)
	}
}

// lines is an io.Writer.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}
