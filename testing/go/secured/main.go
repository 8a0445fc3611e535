// The security of a broker as clients of Go see it: franz-go with its admin client, then sarama with its own.
//
//	secured kadm|sarama BOOTSTRAP CA USER PASSWORD
//
// USER, a super user with a credential for SCRAM-SHA-512, logs in over TLS, makes another user, and gives that ACLs and quotas,
// which it then tries. Each line is a step and what the client saw. Nothing is left but a topic.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	user, password = "bob", "of bob"
	iterations     = 4096
	waitMax        = 30 * time.Second
	pause          = 20 * time.Millisecond
)

type place struct {
	bootstrap, user, password string
	trust                     *tls.Config
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 6 {
		log.Fatal("usage: secured kadm|sarama BOOTSTRAP CA USER PASSWORD")
	}
	pem, err := os.ReadFile(os.Args[3])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	at := place{os.Args[2], os.Args[4], os.Args[5], &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	switch os.Args[1] {
	case "kadm":
		byKadm(limited, at)
	case "sarama":
		bySarama(at)
	default:
		log.Fatalf("unknown client: %q", os.Args[1])
	}
}

// say prints a step and what came of it, in an order of its own.
func say(step string, lines []string, err error) {
	if err != nil {
		lines = []string{described(err)}
	}
	slices.Sort(lines)
	fmt.Printf("%s: %s\n", step, strings.Join(lines, "; "))
}

// sayWhen prints what is found as soon as there are so many lines, because Kafka responds to a change before it shows.
func sayWhen(step string, count int, find func() ([]string, error)) {
	lines, err := find()
	for end := time.Now().Add(waitMax); err == nil && len(lines) != count && time.Now().Before(end); lines, err = find() {
		time.Sleep(pause)
	}
	say(step, lines, err)
}

// described returns the broker's code where there is one.
func described(err error) string {
	var broker *kerr.Error
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &broker):
		return broker.Message
	case errors.As(err, &verification):
		return "the certificate is not trusted"
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
