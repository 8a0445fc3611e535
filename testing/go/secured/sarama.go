package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// conversation is the SCRAM that sarama leaves to its caller.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *conversation) Begin(user, password, identity string) error {
	one, err := c.hash.NewClient(user, password, identity)
	if err == nil {
		c.ClientConversation = one.NewConversation()
	}
	return err
}

func settings(at place, user, password, mechanism string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_0_0
	config.Net.TLS.Enable, config.Net.TLS.Config = true, at.trust
	config.Net.SASL.Enable, config.Net.SASL.User, config.Net.SASL.Password = true, user, password
	config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
	hash := scram.HashGeneratorFcn(sha256.New)
	if mechanism == sarama.SASLTypeSCRAMSHA512 {
		hash = sha512.New
	}
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: hash} }
	config.Producer.Return.Successes = true
	config.Metadata.Retry.Max, config.Producer.Retry.Max = 1, 1
	return config
}

func bySarama(at place) {
	super := settings(at, at.user, at.password, sarama.SASLTypeSCRAMSHA512)
	admin := must(sarama.NewClusterAdmin([]string{at.bootstrap}, super))
	defer admin.Close()
	for _, topic := range []string{"sarama-a", "sarama-b"} {
		err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
		say("create "+topic, []string{"created"}, err)
	}
	usersOf(admin)
	rightsOf(admin)
	triesOf(settings(at, user, password, sarama.SASLTypeSCRAMSHA256), at)
	quotasOf(admin)
	removed, err := admin.DeleteACL(every(), false)
	var lines []string
	for _, one := range removed {
		lines = append(lines, fmt.Sprintf("%s %s %s", one.ResourceType.String(), one.Operation.String(), one.Err))
	}
	say("remove the ACLs", lines, err)
	listed(admin, "ACLs of the user", 0)
	gone := []sarama.AlterUserScramCredentialsDelete{{Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_256}}
	must(admin.DeleteUserScramCredentials(gone))
	for _, topic := range []string{"sarama-a", "sarama-b"} {
		check(admin.DeleteTopic(topic))
	}
	refusals(at)
}

func refusals(at place) {
	for _, one := range [][]string{
		{"a wrong password", at.user, "wrong", sarama.SASLTypeSCRAMSHA512},
		{"an unknown user", "nobody", "wrong", sarama.SASLTypeSCRAMSHA256},
		{"a removed user", user, password, sarama.SASLTypeSCRAMSHA256},
		{"a wrong mechanism", at.user, at.password, sarama.SASLTypePlaintext},
	} {
		_, err := sarama.NewClient([]string{at.bootstrap}, settings(at, one[1], one[2], one[3]))
		say(one[0], nil, err)
	}
	at.trust = &tls.Config{MinVersion: tls.VersionTLS12}
	_, err := sarama.NewClient([]string{at.bootstrap}, settings(at, at.user, at.password, sarama.SASLTypeSCRAMSHA512))
	say("no trust", nil, err)
}

func usersOf(admin sarama.ClusterAdmin) {
	change := func(step string, results []*sarama.AlterUserScramCredentialsResult, err error) {
		var lines []string
		for _, one := range results {
			lines = append(lines, fmt.Sprintf("%s %s", one.User, one.ErrorCode))
		}
		say(step, lines, err)
	}
	made := sarama.AlterUserScramCredentialsUpsert{
		Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_256, Iterations: iterations, Salt: []byte("some salt"), Password: []byte(password),
	}
	results, err := admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{made})
	change("make a user", results, err)
	made.Name, made.Iterations = "few", 100
	results, err = admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{made})
	change("make a user with few iterations", results, err)
	results, err = admin.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{Name: "nobody", Mechanism: made.Mechanism}})
	change("remove an unknown user", results, err)
	sayWhen("describe users", 3, func() (lines []string, err error) {
		described, err := admin.DescribeUserScramCredentials([]string{user, "nobody"})
		for _, one := range described {
			for _, info := range one.CredentialInfos {
				lines = append(lines, fmt.Sprintf("%s %s %d", one.User, info.Mechanism, info.Iterations))
			}
			lines = append(lines, fmt.Sprintf("%s %s", one.User, one.ErrorCode))
		}
		return lines, err
	})
}

func rightsOf(admin sarama.ClusterAdmin) {
	principal := "User:" + user
	acl := func(operation sarama.AclOperation, permission sarama.AclPermissionType, host string) *sarama.Acl {
		return &sarama.Acl{Principal: principal, Host: host, Operation: operation, PermissionType: permission}
	}
	topic := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "sarama-a", ResourcePatternType: sarama.AclPatternLiteral}
	groups := sarama.Resource{ResourceType: sarama.AclResourceGroup, ResourceName: "of-", ResourcePatternType: sarama.AclPatternPrefixed}
	read, write := sarama.AclOperationRead, sarama.AclOperationWrite
	check(admin.CreateACLs([]*sarama.ResourceAcls{
		{Resource: topic, Acls: []*sarama.Acl{acl(read, sarama.AclPermissionAllow, "*"), acl(write, sarama.AclPermissionAllow, "*")}},
		{Resource: groups, Acls: []*sarama.Acl{acl(read, sarama.AclPermissionAllow, "127.0.0.1"), acl(read, sarama.AclPermissionDeny, "10.0.0.1")}},
	}))
	listed(admin, "ACLs of the user", 4)
	empty := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourcePatternType: sarama.AclPatternLiteral}
	say("an ACL without a name", []string{"created"}, admin.CreateACL(empty, *acl(read, sarama.AclPermissionAllow, "*")))
}

func every() sarama.AclFilter {
	principal := "User:" + user
	return sarama.AclFilter{
		Version: 1, ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny, Principal: &principal,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
}

func listed(admin sarama.ClusterAdmin, step string, count int) {
	sayWhen(step, count, func() (lines []string, err error) {
		found, err := admin.ListAcls(every())
		for _, resource := range found {
			of := fmt.Sprintf("%s %s %s", resource.ResourceType.String(), resource.ResourceName, resource.ResourcePatternType.String())
			for _, one := range resource.Acls {
				lines = append(lines, fmt.Sprintf("%s %s %s from %s", one.PermissionType.String(), of, one.Operation.String(), one.Host))
			}
		}
		return lines, err
	})
}

func triesOf(config *sarama.Config, at place) {
	bob := must(sarama.NewClient([]string{at.bootstrap}, config))
	defer bob.Close()
	producer := must(sarama.NewSyncProducerFromClient(bob))
	for _, topic := range []string{"sarama-a", "sarama-b"} {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("one")})
		say("produce to "+topic, []string{"written"}, err)
	}
	consumer := must(sarama.NewConsumerFromClient(bob))
	for _, topic := range []string{"sarama-a", "sarama-b"} {
		partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
		if err != nil {
			say("consume "+topic, nil, err)
			continue
		}
		say("consume "+topic, []string{string((<-partition.Messages()).Value)}, nil)
		check(partition.Close())
	}
	for _, group := range []string{"of-bob", "other"} {
		_, err := bob.Coordinator(group)
		say("coordinator of "+group, []string{"found"}, err)
	}
	own := must(sarama.NewClusterAdminFromClient(bob))
	err := own.CreateTopic("sarama-c", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	say("create a topic", []string{"created"}, err)
	topics, err := own.ListTopics()
	var names []string
	for name := range topics {
		names = append(names, name)
	}
	say("topics that the user sees", names, err)
	listed(own, "ACLs that the user sees", 0)
	_, err = own.DescribeUserScramCredentials([]string{at.user})
	say("users that the user sees", nil, err)
	_, err = own.DescribeClientQuotas(ofUser(), true)
	say("quotas that the user sees", nil, err)
}

func ofUser() []sarama.QuotaFilterComponent {
	return []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: user}}
}

func quotasOf(admin sarama.ClusterAdmin) {
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: user}}
	set := sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1 << 20}
	say("set a quota", []string{"set"}, admin.AlterClientQuotas(entity, set, false))
	say("set an unknown quota", []string{"set"}, admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "nothing", Value: 1}, false))
	sayWhen("quotas", 1, func() (lines []string, err error) {
		found, err := admin.DescribeClientQuotas(ofUser(), true)
		for _, one := range found {
			for key, value := range one.Values {
				lines = append(lines, fmt.Sprintf("%s=%g", key, value))
			}
		}
		return lines, err
	})
	check(admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true}, false))
}
