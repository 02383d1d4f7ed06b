package cloudstack

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

func TestNumbersAndTextsInAnyForm(t *testing.T) {
	var got struct {
		A, B, C, D, E text
		F, G, H, I, J number
		K, L, M       flag
	}
	body := `{"A":"x","B":7,"C":true,"D":null,"E":{"a":1},"F":7,"G":"8","H":"9.7","I":1e300,"J":["x"],"K":true,"L":"TRUE","M":0}`
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.A != "x" || got.B != "7" || got.C != "true" || got.D != "" || got.E != "" || got.F != 7 || got.G != 8 || got.H != 9 || got.I != 0 || got.J != 0 || !got.K || !got.L || got.M {
		t.Errorf("%+v", got)
	}
}

// Whatever the server answers: nothing crashes, every error is a declared fault, and one
// constant answer to all calls never proves that a resource is gone.
func FuzzAnswers(f *testing.F) {
	for _, inner := range []string{
		`{}`, `{"count":1,"virtualmachine":[{"id":"11111111-1111-4111-8111-111111111111","name":"vm","state":"Running","nic":[{"ipaddress":"1"}],"tags":[{"key":"a"}]}]}`,
		`{"count":-1}`, `{"virtualmachine":null}`, `{"virtualmachine":[null]}`, `{"virtualmachine":{"id":1}}`, `{"errorcode":431}`, `{"errorcode":"431","errortext":["x"]}`,
		`{"jobid":"j","jobstatus":2,"jobresult":"text"}`, `{"jobstatus":1,"jobresult":[{}]}`, `{"jobid":7,"jobstatus":"0"}`, `{"id":"x","jobid":"y"}`,
		`{"network":{"id":"n"}}`, `{"success":false}`, `[]`, `null`, `"x"`, `{"api":[{"name":"deployVirtualMachine","params":[{"name":"customjobid"}]}]}`,
		`{"zone":[{"id":"z1","name":{}}]}`, `{"capacity":[{"type":0,"capacitytotal":"99999999999999999999","capacityused":-5}]}`, `{"firewallrule":[{"id":"x","startport":-7}]}`,
	} {
		f.Add(200, true, inner)
		f.Add(431, true, inner)
	}
	f.Add(200, false, "<html>")
	f.Add(500, false, "\xff\x00")
	f.Add(429, false, "")
	f.Fuzz(func(t *testing.T, status int, wrap bool, body string) {
		if status < 200 || status > 599 || status == 429 {
			status = 200 // a throttled client would wait
		}
		p := provider(t, func(r *http.Request) (*http.Response, error) {
			text := body
			if wrap {
				text = `{"` + strings.ToLower(commandOf(r)) + `response":` + body + `}`
			}
			return reply(status, text), nil
		}, func(o *Options) { o.Rate, o.Poll = 1_000_000, 1 })
		ctx := t.Context()
		checkErr := func(what string, err error) {
			if err == nil {
				return
			}
			if errors.Is(err, cluster.ErrGone) {
				// ErrGone requires a server that lists a zone and no VM.
				var answer map[string]json.RawMessage
				if !wrap || json.Unmarshal([]byte(body), &answer) != nil || answer["zone"] == nil {
					t.Errorf("%s: %v after %d %q", what, err, status, body)
				}
				return
			}
			if fault.Of(err) == fault.Unknown {
				t.Errorf("%s: %v is no declared fault", what, err)
			}
		}
		_, err := p.Get(ctx, vmRef)
		checkErr("get", err)
		_, err = p.Poll(ctx, cluster.Call{Job: "j,k", Ref: vmRef})
		checkErr("poll", err)
		_, err = p.Act(ctx, vmRef, cluster.Destroy)
		checkErr("destroy", err)
		for kind := range kindSpecs {
			w := cluster.DesiredResource{
				Kind: kind, Name: "vm", Key: "k", CallID: "c", Spec: cluster.Spec{Zone: "z1", Network: "n", Address: "a", VMs: []string{"v"}},
				Tags: map[string]string{cluster.TagInstallation: "exam", cluster.TagCluster: "c", cluster.TagKey: "k"},
			}
			_, err = p.Create(ctx, w)
			checkErr("create", err)
			_, err = p.List(ctx, cluster.Filter{Kind: kind}, "2/x")
			checkErr("list", err)
		}
		for _, kind := range []cluster.Kind{cluster.Zone, cluster.Offering, cluster.Template, cluster.NetworkOffering, cluster.Network, cluster.KeyPair} {
			_, err = p.Catalog(ctx, cluster.Owner{}, kind)
			checkErr("catalogue", err)
		}
		_, err = p.Check(ctx, cluster.Need{Zone: "z1", Offering: "o", Template: "t", Nodes: 3})
		checkErr("check", err)
	})
}
