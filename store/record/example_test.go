package record_test

import (
	"fmt"
	"time"

	"millwright/store/record"
)

// The first record of a log, as it is stored. What is read back has the hash that was stored, or nothing is
// read.
func ExampleUnmarshal() {
	genesis, err := record.Genesis("example", "00112233445566778899aabbccddeeff", time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC))
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := record.Marshal(genesis)
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := record.Unmarshal(1, data)
	fmt.Println(got.Seq, got.Hash == genesis.Hash, err)

	data[len(data)/2] ^= 1
	_, err = record.Unmarshal(1, data)
	fmt.Println("a changed bit is noticed:", err != nil)
	// Output:
	// 1 true <nil>
	// a changed bit is noticed: true
}
