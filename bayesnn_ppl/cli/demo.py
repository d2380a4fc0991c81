def run_demo(a): return 0
