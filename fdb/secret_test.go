package fdb_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
)

// A secret shows in no way in which programs write values down.
func TestSecretIsHidden(t *testing.T) {
	call := fdb.StartBackup(fdb.Backup{URL: "blobstore://key@host:443/b?bucket=c"})
	call.Secrets = "hunter2"
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("call", "secret", call.Secrets, "call", call)
	encoded, err := json.Marshal(struct {
		Call   fdb.Call
		Secret fdb.Secret
	}{call, call.Secrets})
	if err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{
		log.String(), string(encoded), fmt.Sprint(call), fmt.Sprintf("%+v %#v %s %q %x", call, call, call.Secrets, call.Secrets, call.Secrets),
	} {
		if strings.Contains(written, "hunter2") || strings.Contains(written, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("the secret stands in %s", written)
		}
	}
	if string(call.Secrets) != "hunter2" || fdb.Secret("").String() != "" {
		t.Error("the text itself is lost")
	}
}
