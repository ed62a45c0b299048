package ec2

import (
	"cmp"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"pgregory.net/rapid"

	karpawsv1 "millwright/api/karpenteraws/v1"
)

// Vectors of the newest families, of those that cannot trunk, and of one that nobody's table knows.
func TestInterfacesThatTheAPIDoesNotTell(t *testing.T) {
	for name, want := range map[string]interfaces{
		"m8azn.medium": {3, 4}, "m8gb.48xlarge": {98, 50}, "c8ib.96xlarge": {98, 64}, "r8i-flex.large": {3, 20}, "c7g-flex.medium": {1, 4},
		"i7ie.large": {19, 10}, "p6-b300.48xlarge": {120, 50}, "mac-m4.metal": {6, 30}, "m5.metal": {120, 50},
		"t3.large": {0, 12}, "m4.large": {0, 10}, "i3.large": {0, 10}, "c1.medium": {0, 6}, "m99.large": {},
	} {
		if got := knownInterfaces()[name]; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if n := len(knownInterfaces()); n < 1400 {
		t.Errorf("%d types are known", n)
	}
}

// What Windows pods get comes from the table, as for the controller that hands the addresses out: nothing for
// a type it does not know.
func TestWindowsAddressesOfATypeNobodyKnows(t *testing.T) {
	s := &sizing{family: families[karpawsv1.AMIFamilyWindows2022], kubelet: karpawsv1.KubeletConfiguration{}}
	for name, want := range map[ec2types.InstanceType]int64{"m99.large": 0, "m8i.large": 19, "m6g.large": 9} {
		info := &ec2types.InstanceTypeInfo{InstanceType: name, NetworkInfo: &ec2types.NetworkInfo{
			Ipv4AddressesPerInterface: aws.Int32(30), MaximumNetworkInterfaces: aws.Int32(3),
		}}
		if got := addressesOf(s, info); got != want {
			t.Errorf("%s: %d addresses, want %d", name, got, want)
		}
	}
}

// An EC2 that does not say how many addresses an interface has leaves no pod an address, and takes none away.
func TestPodsOfATypeWithoutAddresses(t *testing.T) {
	info := &ec2types.InstanceTypeInfo{NetworkInfo: &ec2types.NetworkInfo{MaximumNetworkInterfaces: aws.Int32(8)}}
	if got := eniPods(info, 0); got != 2 {
		t.Errorf("%d pods, want the 2 on the host's network", got)
	}
}

func addressesOf(s *sizing, t *ec2types.InstanceTypeInfo) int64 {
	s.overhead = big.NewRat(75, 1000)
	return s.capacity(t)[resourcePrivateIPv4]
}

// Whatever the prices are, they are read as they were written.
func TestPriceTablesAreReadAsTheyWereWritten(t *testing.T) {
	sizes := []string{"nano", "micro", "small", "medium", "large", "xlarge", "2xlarge", "16xlarge", "metal", "metal-48xl", "6tb"}
	rapid.Check(t, func(t *rapid.T) {
		var tables []PriceTable
		for _, region := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"cn-north-1", "eu-west-1", "us-east-1"}), rapid.ID).Draw(t, "regions") {
			p := PriceTable{Region: region, Date: "2026-11-23", Prices: map[string]int64{}}
			for _, size := range rapid.SliceOfDistinct(rapid.SampledFrom(sizes), rapid.ID).Draw(t, "sizes") {
				p.Prices["m5."+size] = rapid.OneOf(rapid.Int64Range(1, 100), rapid.Just(int64(96000)), rapid.Just(int64(192000)), rapid.Int64Range(1, 1<<40)).Draw(t, size)
			}
			tables = append(tables, p)
		}
		var text strings.Builder
		if err := FormatPriceTables(&text, tables); err != nil {
			t.Fatal(err)
		}
		got, err := ParsePriceTables(text.String())
		slices.SortFunc(tables, func(a, b PriceTable) int { return cmp.Compare(a.Region, b.Region) })
		if err != nil || len(got) != len(tables) || len(got) > 0 && !reflect.DeepEqual(got, tables) {
			t.Fatalf("%v\n%s\n%v\n%v", err, &text, got, tables)
		}
	})
}

func TestPriceTablesThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"m5 large:1", "region us-east-1", "region a b\nm5 large", "region a b\nm5 @x large", "region a b\nm5 @1 nano", "region a b\nm5 large:x"} {
		if got, err := ParsePriceTables(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestDocumentedBandwidthWinsOverTheCards(t *testing.T) {
	info := func(name string) *ec2types.InstanceTypeInfo {
		return &ec2types.InstanceTypeInfo{InstanceType: ec2types.InstanceType(name), NetworkInfo: &ec2types.NetworkInfo{
			NetworkCards: []ec2types.NetworkCardInfo{{BaselineBandwidthInGbps: aws.Float64(1.171)}},
		}}
	}
	for name, want := range map[string]int64{
		"i8g.large": 1172, "i8ge.48xlarge": 180000, "c5ad.24xlarge": 20000, "p6-b200.48xlarge": 3200000, "m4.large": 0, "t2.large": 0, "m99.large": 1171,
	} {
		if got := networkMbps(info(name)); got != want {
			t.Errorf("%s: %d Mbps, want %d", name, got, want)
		}
	}
}

func TestClockSpeeds(t *testing.T) {
	for sentence, c := range map[string]struct {
		ghz  *float64
		want []string
	}{
		"none is known": {nil, nil}, "zero, of old types": {aws.Float64(0), []string{"0"}}, "a fraction": {aws.Float64(2.3), []string{"2300"}},
	} {
		l := labels{}
		processorLabels(l, &ec2types.InstanceTypeInfo{ProcessorInfo: &ec2types.ProcessorInfo{SustainedClockSpeedInGhz: c.ghz}})
		if got := l[karpawsv1.LabelInstanceCPUSustainedClockMHz]; len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
			t.Errorf("%s: %v, want %v", sentence, got, c.want)
		}
	}
}

// A card that cannot be is none: the panic of a poll would end the process.
func TestADefaultNetworkCardThatCannotBe(t *testing.T) {
	for card, want := range map[int32]int64{-1: 3*9 + 2, 0: 2*9 + 2, 1: 3*9 + 2} {
		info := &ec2types.InstanceTypeInfo{InstanceType: "m99.large", NetworkInfo: &ec2types.NetworkInfo{
			DefaultNetworkCardIndex: aws.Int32(card), Ipv4AddressesPerInterface: aws.Int32(10), MaximumNetworkInterfaces: aws.Int32(3),
			NetworkCards: []ec2types.NetworkCardInfo{{MaximumNetworkInterfaces: aws.Int32(2)}},
		}}
		if got := eniPods(info, 0); got != want {
			t.Errorf("card %d: %d pods, want %d", card, got, want)
		}
	}
}
