import sys
import types


class Everything(types.ModuleType):
    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self


sys.modules[__name__].__class__ = Everything
sys.modules[__name__] = Everything(__name__)
LFWDataset = sys.modules[__name__]
# class LFWDataset
