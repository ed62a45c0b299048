package view

// StoryRecordsMax for the tests of stories.
const StoryRecordsMax = storyRecordsMax
