package policy

import "testing"

func TestWhatAPolicyAllows(t *testing.T) {
	d, err := Read([]byte(`{"Version": "2012-10-17", "Statement": [
		{"Sid": "End", "Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": ["arn:aws:ec2:*:1:instance/*"],
		 "Condition": {"StringEquals": {"aws:ResourceTag/Owner": "us"}, "StringLike": {"aws:ResourceTag/pool": "*"}}},
		{"Sid": "Tag", "Effect": "Allow", "Action": ["ec2:CreateTags"], "Resource": "*",
		 "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["Name"]}, "StringEqualsIfExists": {"aws:RequestTag/Name": "n"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const end, instance = "ec2:TerminateInstances", "arn:aws:ec2:us-west-2:1:instance/i-1"
	for what, c := range map[string]struct {
		q    Question
		want bool
	}{
		"all is as it must be":         {Question{end, instance, map[string][]string{"aws:ResourceTag/Owner": {"us"}, "aws:ResourceTag/pool": {""}}}, true},
		"case of the key":              {Question{end, instance, map[string][]string{"AWS:resourcetag/Owner": {"us"}, "aws:ResourceTag/pool": {"a"}}}, true},
		"case of the tag":              {Question{end, instance, map[string][]string{"aws:ResourceTag/owner": {"us"}, "aws:ResourceTag/pool": {"a"}}}, false},
		"one tag is missing":           {Question{end, instance, map[string][]string{"aws:ResourceTag/Owner": {"us"}}}, false},
		"another value":                {Question{end, instance, map[string][]string{"aws:ResourceTag/Owner": {"them"}, "aws:ResourceTag/pool": {"a"}}}, false},
		"another account's instance":   {Question{end, "arn:aws:ec2:us-west-2:2:instance/i-1", map[string][]string{"aws:ResourceTag/Owner": {"us"}, "aws:ResourceTag/pool": {"a"}}}, false},
		"another action":               {Question{"ec2:StopInstances", instance, map[string][]string{"aws:ResourceTag/Owner": {"us"}, "aws:ResourceTag/pool": {"a"}}}, false},
		"a tag that may be set":        {Question{"ec2:CreateTags", instance, map[string][]string{"aws:TagKeys": {"Name"}, "aws:RequestTag/Name": {"n"}}}, true},
		"a tag that may not be":        {Question{"ec2:CreateTags", instance, map[string][]string{"aws:TagKeys": {"Name", "Owner"}, "aws:RequestTag/Name": {"n"}}}, false},
		"a value that it may not have": {Question{"ec2:CreateTags", instance, map[string][]string{"aws:TagKeys": {"Name"}, "aws:RequestTag/Name": {"m"}}}, false},
	} {
		if got := d.Allows(c.q); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A policy is never taken for wider than it is.
func TestPoliciesThatCannotBeJudgedAreNotRead(t *testing.T) {
	for what, text := range map[string]string{
		"a denial":            `{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}`,
		"an unknown operator": `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "::1"}}}]}`,
		"an unknown field":    `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "NotAction": "a:b", "Action": "*", "Resource": "*"}]}`,
		"another version":     `{"Version": "2008-10-17", "Statement": []}`,
	} {
		if d, err := Read([]byte(text)); err == nil {
			t.Errorf("%s was read: %v", what, d)
		}
	}
}

func TestPatterns(t *testing.T) {
	for pattern, texts := range map[string]map[string]bool{
		"*":    {"": true, "a": true},
		"a*c":  {"ac": true, "abc": true, "ab": false, "acb": false},
		"a?c":  {"abc": true, "ac": false},
		"a*b*": {"ab": true, "axbx": true, "ba": false},
	} {
		for text, want := range texts {
			if matches(pattern, text) != want {
				t.Errorf("%q matches %q: %v", pattern, text, !want)
			}
		}
	}
}
