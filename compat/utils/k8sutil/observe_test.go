package k8sutil

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

func TestFinding24TroubleOfTheOwnServerIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer SetConfig(nil)
		SetConfig(nil)
		if _, known := Answered(503, time.Hour); known {
			t.Error("known though nobody observes")
		}
		c := Observed(&rest.Config{Host: "https://127.0.0.1:1"})
		ask := func(status answers) {
			answer, err := c.WrapTransport(status).RoundTrip(httptest.NewRequest("GET", "https://127.0.0.1:1/", nil))
			if err != nil || answer.StatusCode != int(status) {
				t.Fatal(answer, err)
			}
			answer.Body.Close()
		}
		for _, status := range []answers{200, 404, 409, 503} {
			ask(status)
		}
		time.Sleep(30 * time.Second)
		for status, want := range map[int]bool{200: false, 404: false, 409: false, 429: false, 503: true} {
			if got, known := Answered(status, time.Minute); got != want || !known {
				t.Errorf("%d: %t, known %t", status, got, known)
			}
		}
		time.Sleep(time.Minute)
		if got, _ := Answered(503, time.Minute); got {
			t.Error("trouble of long ago counts")
		}
		if _, config, err := GetKubeClient(); err != nil || config.WrapTransport == nil {
			t.Errorf("the client of this package is not observed: %v", err)
		}
	})
}
