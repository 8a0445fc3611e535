package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func client(at place, login sasl.Mechanism, more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{kgo.SeedBrokers(at.bootstrap), kgo.DialTLSConfig(at.trust), kgo.SASL(login)}
	return must(kgo.NewClient(append(append(options, kgo.RetryTimeout(waitMax), kgo.RecordDeliveryTimeout(waitMax)), more...)...))
}

func byKadm(ctx context.Context, at place) {
	super := client(at, scram.Auth{User: at.user, Pass: at.password}.AsSha512Mechanism())
	defer super.Close()
	admin := kadm.NewClient(super)
	for _, topic := range []string{"kadm-a", "kadm-b"} {
		_, err := admin.CreateTopic(ctx, 1, 1, nil, topic)
		say("create "+topic, []string{"created"}, err)
	}
	users(ctx, admin)
	rights(ctx, admin)
	bob := client(at, scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), kgo.DefaultProduceTopic("kadm-a"))
	defer bob.Close()
	uses(ctx, bob, at)
	quotas(ctx, admin)
	ended(ctx, admin)
	wrong := map[string]sasl.Mechanism{
		"a wrong password":  scram.Auth{User: at.user, Pass: "wrong"}.AsSha512Mechanism(),
		"an unknown user":   scram.Auth{User: "nobody", Pass: "wrong"}.AsSha256Mechanism(),
		"a removed user":    scram.Auth{User: user, Pass: password}.AsSha256Mechanism(),
		"a wrong mechanism": plain.Auth{User: at.user, Pass: at.password}.AsMechanism(),
	}
	for _, name := range []string{"a wrong password", "an unknown user", "a removed user", "a wrong mechanism"} {
		say(name, nil, ping(ctx, at, wrong[name]))
	}
	at.trust = &tls.Config{MinVersion: tls.VersionTLS12}
	say("no trust", nil, ping(ctx, at, wrong["a wrong password"]))
}

func ping(ctx context.Context, at place, login sasl.Mechanism) error {
	one := client(at, login)
	defer one.Close()
	return one.Ping(ctx)
}

func users(ctx context.Context, admin *kadm.Client) {
	change := func(step string, gone []kadm.DeleteSCRAM, made []kadm.UpsertSCRAM) {
		results, err := admin.AlterUserSCRAMs(ctx, gone, made)
		var lines []string
		for _, one := range results {
			lines = append(lines, fmt.Sprintf("%s %v", one.User, outcome(one.Err)))
		}
		say(step, lines, err)
	}
	made := kadm.UpsertSCRAM{User: user, Mechanism: kadm.ScramSha256, Iterations: iterations, Password: password}
	change("make a user", nil, []kadm.UpsertSCRAM{made})
	few := made
	few.User, few.Iterations = "few", 100
	change("make a user with few iterations", nil, []kadm.UpsertSCRAM{few})
	change("remove an unknown user", []kadm.DeleteSCRAM{{User: "nobody", Mechanism: kadm.ScramSha256}}, nil)
	sayWhen("describe users", 2, func() (lines []string, err error) {
		described, err := admin.DescribeUserSCRAMs(ctx, user, "nobody")
		for _, one := range described {
			lines = append(lines, fmt.Sprintf("%s %v %v", one.User, one.CredInfos, outcome(one.Err)))
		}
		return lines, err
	})
}

func outcome(err error) string {
	if err != nil {
		return described(err)
	}
	return "OK"
}

func allowed() *kadm.ACLBuilder {
	return kadm.NewACLs().Allow("User:"+user).AllowHosts("*").Topics("kadm-a").
		ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead, kadm.OpWrite)
}

func ofBob() *kadm.ACLBuilder {
	return kadm.NewACLs().Allow("User:" + user).AllowHosts().Deny("User:" + user).DenyHosts().AnyResource().
		ResourcePatternType(kadm.ACLPatternAny).Operations(kadm.OpAny)
}

func rights(ctx context.Context, admin *kadm.Client) {
	groups := kadm.NewACLs().Allow("User:" + user).AllowHosts("127.0.0.1").Deny("User:" + user).DenyHosts("10.0.0.1").Groups("of-").
		ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpRead)
	for step, builder := range map[string]*kadm.ACLBuilder{"allow a topic": allowed(), "allow and deny groups": groups} {
		results, err := admin.CreateACLs(ctx, builder)
		check(err)
		for _, one := range results {
			check(errors.Join(one.Err, fmtError(step, one.ErrMessage)))
		}
	}
	said(ctx, admin, "ACLs of the user", 4)
}

func fmtError(step, message string) error {
	if message == "" {
		return nil
	}
	return errors.New(step + ": " + message)
}

func said(ctx context.Context, admin *kadm.Client, step string, count int) {
	sayWhen(step, count, func() (lines []string, err error) {
		found, err := admin.DescribeACLs(ctx, ofBob())
		for _, filter := range found {
			for _, one := range filter.Described {
				line := fmt.Sprintf("%v %v %s %v %v %s from %s", one.Permission, one.Type, one.Name, one.Pattern, one.Operation, one.Principal, one.Host)
				lines = append(lines, line)
			}
		}
		return lines, err
	})
}

func uses(ctx context.Context, bob *kgo.Client, at place) {
	value := []byte("one")
	say("produce", []string{"written"}, bob.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr())
	say("produce elsewhere", []string{"written"}, bob.ProduceSync(ctx, &kgo.Record{Topic: "kadm-b", Value: value}).FirstErr())
	for _, group := range []string{"of-bob", "other"} {
		login := scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
		reader := client(at, login, kgo.ConsumerGroup(group), kgo.ConsumeTopics("kadm-a"))
		reader.UpdateFetchMaxBytes(1<<20, 1<<20)
		fetches := reader.PollFetches(ctx)
		var lines []string
		fetches.EachRecord(func(record *kgo.Record) { lines = append(lines, string(record.Value)) })
		say("consume as "+group, lines, fetches.Err())
		reader.Close()
	}
	own := kadm.NewClient(bob)
	_, err := own.CreateTopic(ctx, 1, 1, nil, "kadm-c")
	say("create a topic", nil, err)
	topics, err := own.ListTopics(ctx)
	say("topics that the user sees", topics.Names(), err)
	said(ctx, own, "ACLs that the user sees", 0)
	_, err = own.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: at.user, Mechanism: kadm.ScramSha512}}, nil)
	say("remove the super user", nil, err)
	_, err = own.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: kmsg.QuotasMatchTypeAny}})
	say("quotas that the user sees", nil, err)
	_, err = own.DescribeBrokerConfigs(ctx, 1)
	say("settings that the user sees", nil, err)
}

func quotas(ctx context.Context, admin *kadm.Client) {
	name := user
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: &name}}
	for _, step := range []struct {
		name string
		op   kadm.AlterClientQuotaOp
	}{
		{"set a quota", kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 1 << 20}},
		{"set an unknown quota", kadm.AlterClientQuotaOp{Key: "nothing", Value: 1}},
	} {
		results, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{step.op}}})
		var lines []string
		for _, one := range results {
			lines = append(lines, fmt.Sprintf("%v %v", one.Entity, outcome(one.Err)))
		}
		say(step.name, lines, err)
	}
	exact := []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &name, MatchType: kmsg.QuotasMatchTypeExact}}
	sayWhen("quotas", 1, func() (lines []string, err error) {
		found, err := admin.DescribeClientQuotas(ctx, true, exact)
		for _, one := range found {
			lines = append(lines, fmt.Sprintf("%v %v", one.Entity, one.Values))
		}
		return lines, err
	})
	removal := []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Remove: true}}
	must(admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: removal}}))
}

func ended(ctx context.Context, admin *kadm.Client) {
	results, err := admin.DeleteACLs(ctx, ofBob())
	var lines []string
	for _, filter := range results {
		for _, one := range filter.Deleted {
			lines = append(lines, fmt.Sprintf("%v %v %s", one.Type, one.Operation, outcome(one.Err)))
		}
	}
	say("remove the ACLs", lines, err)
	said(ctx, admin, "ACLs of the user", 0)
	must(admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha256}}, nil))
	must(admin.DeleteTopics(ctx, "kadm-a", "kadm-b"))
}
