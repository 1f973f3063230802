"""What several controllers of Pods share, and the collector of terminated Pods."""
