// Package orders: an order is sent although the leader moves; a week later, the retention of its topic has removed it.
//
// Needs pybroker on the PATH.
package orders

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

type broker struct{ api, bootstrap string }

// start runs a broker until the end of the test.
func start(t *testing.T) *broker {
	command := exec.Command("pybroker", "start", "--port", "0", "--exit-with-parent", "--data-dir", t.TempDir(),
		"--override", "pybroker.admin.listener=http://127.0.0.1:0",
		"--override", "pybroker.virtual.time=true")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(os.Interrupt)
		command.Wait()
	})
	found := &broker{}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		kind, address, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "ADMIN":
			found.api = address
		case "READY":
			found.bootstrap = address
			return found
		}
	}
	t.Fatal("the broker has ended before it was ready")
	return nil
}

// request sends JSON, and reads the response into `into`.
func (b *broker) request(t *testing.T, method, path, body string, into any) {
	request, err := http.NewRequest(method, b.api+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) send(t *testing.T, topic, value string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.bootstrap), kgo.ClientID("shop"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: topic, Value: []byte(value)}
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) recordCount(t *testing.T) int {
	var found struct {
		Topics []struct {
			RecordCount int `json:"record_count"`
		}
	}
	b.request(t, "GET", "/v1/topics", "", &found)
	count := 0
	for _, topic := range found.Topics {
		count += topic.RecordCount
	}
	return count
}

func TestOrders(t *testing.T) {
	b := start(t)
	var ignored any
	rule := `{"name": "moves", "api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}`
	b.request(t, "POST", "/v1/faults", rule, &ignored)
	b.send(t, "orders", "order 1")
	var counted struct{ Count int }
	b.request(t, "GET", "/v1/faults/moves", "", &counted)
	if counted.Count != 2 {
		t.Fatalf("the leader has moved %d times", counted.Count)
	}
	if count := b.recordCount(t); count != 1 {
		t.Fatalf("there are %d records", count)
	}
	b.request(t, "POST", "/v1/clock/advance", `{"by": "8d"}`, &ignored) // the retention is a week by default
	if count := b.recordCount(t); count != 0 {
		t.Fatalf("there are %d records after a week", count)
	}
	b.request(t, "POST", "/v1/reset", "", &ignored)
}
